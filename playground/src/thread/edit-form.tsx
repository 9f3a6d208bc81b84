import { useEffect, useId, useRef, useState } from "react";
import { argumentsOf } from "../state/agents.ts";
import { pretty } from "./tool-call.tsx";

interface EditProps {
  /** The arguments as the model wrote them. */
  readonly text: string;
  readonly isSent: boolean;
  readonly onSend: (input: unknown) => void;
  readonly onCancel: () => void;
}

/** The arguments of a call, to be changed before it runs: one field each, or all of them as JSON. */
export function EditForm({ text, isSent, onSend, onCancel }: EditProps) {
  const input = argumentsOf(text);
  const [fields, setFields] = useState(() => fieldsOf(input ?? {}));
  const [json, setJson] = useState<string | undefined>(input ? undefined : text);
  const [problem, setProblem] = useState("");
  const form = useRef<HTMLFormElement>(null);
  const isJson = json !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the other view begins with its first field
  useEffect(() => form.current?.querySelector("textarea")?.focus(), [isJson]);

  function read(): Record<string, unknown> | undefined {
    try {
      return isJson ? JSON.parse(json) : inputOf(fields);
    } catch (error) {
      setProblem((error as Error).message);
      return undefined;
    }
  }

  function submit(): void {
    const edited = read();
    if (edited !== undefined) onSend(edited);
  }

  function show(view: "fields" | "json"): void {
    const edited = read();
    if (edited === undefined) return;
    if (view === "json") setJson(pretty(JSON.stringify(edited)));
    else {
      setFields(fieldsOf(edited));
      setJson(undefined);
    }
  }

  return (
    <form
      ref={form}
      className="edit"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          event.stopPropagation();
          onCancel();
        }
        if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit();
      }}
    >
      <div className="seg ink" role="group" aria-label="How to edit">
        {(["fields", "json"] as const).map((view) => (
          <button
            key={view}
            type="button"
            className={(view === "json") === isJson ? "on" : ""}
            aria-pressed={(view === "json") === isJson}
            onClick={() => (view === "json") !== isJson && show(view)}
          >
            {view === "json" ? "JSON" : "Fields"}
          </button>
        ))}
      </div>
      {isJson ? (
        <textarea
          aria-label="Arguments as JSON"
          spellCheck={false}
          rows={3}
          value={json}
          onChange={({ target }) => {
            setJson(target.value);
            setProblem("");
          }}
        />
      ) : (
        fields.map((field, index) => (
          <FieldRow
            key={field.name}
            field={field}
            onChange={(value) => {
              setFields(fields.with(index, { ...field, value }));
              setProblem("");
            }}
          />
        ))
      )}
      {problem !== "" && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
      <div className="acts">
        <button type="submit" className="btn yes" disabled={isSent}>
          Run with these arguments <kbd>⌃↵</kbd>
        </button>
        <button type="button" className="btn" onClick={onCancel}>
          Back <kbd>esc</kbd>
        </button>
      </div>
    </form>
  );
}

/** An argument; text as it is, everything else as JSON. */
interface Field {
  readonly name: string;
  readonly value: string;
  readonly isText: boolean;
}

function FieldRow({
  field,
  onChange,
}: {
  readonly field: Field;
  readonly onChange: (value: string) => void;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{field.name}</label>
      <textarea
        id={id}
        spellCheck={false}
        rows={1}
        value={field.value}
        onChange={({ target }) => onChange(target.value)}
      />
    </div>
  );
}

function fieldsOf(input: Readonly<Record<string, unknown>>): readonly Field[] {
  return Object.entries(input).map(([name, value]) => {
    const isText = typeof value === "string";
    return { name, isText, value: isText ? value : JSON.stringify(value, null, 2) };
  });
}

/** The arguments of the fields; throws an error that names the field that is not JSON. */
function inputOf(fields: readonly Field[]): Record<string, unknown> {
  return Object.fromEntries(
    fields.map(({ name, value, isText }) => [name, isText ? value : parse(name, value)]),
  );
}

function parse(name: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch (cause) {
    throw new Error(`${name} is not JSON: ${(cause as Error).message}`, { cause });
  }
}
