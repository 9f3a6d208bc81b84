import { jsonSchema, ToolFailure, taskBehind, tool } from "../../agent/index.ts";
import type { HookContext, Message, Tool, ToolUseBlock } from "../../contract/index.ts";
import type { ModelView, Note } from "../context/notes.ts";
import { transcriptBehind } from "../hook-task.ts";
import { oneLine, todoTexts } from "../prompts.ts";

/** An entry of a todo list. */
export interface Todo {
  readonly content: string;
  readonly status: "pending" | "in_progress" | "completed";
}

const toolName = "todo_write";
const noteKey = "todos";
const maxTodos = 100;
const maxContent = 500;
const statuses: readonly Todo["status"][] = ["pending", "in_progress", "completed"];
const marks = { pending: "[ ]", in_progress: "[>]", completed: "[x]" } as const;

/** Creates the tool with which the model keeps a list of its steps; readers see it as `rivulet.todos`. */
export function todoTool(): Tool {
  return tool({
    name: toolName,
    description: todoTexts.description,
    input: jsonSchema<{ todos: readonly Todo[] }>({
      type: "object",
      properties: {
        todos: {
          type: "array",
          maxItems: maxTodos,
          items: {
            type: "object",
            properties: {
              content: { type: "string", minLength: 1, maxLength: maxContent },
              status: { type: "string", enum: statuses },
            },
            required: ["content", "status"],
            additionalProperties: false,
          },
        },
      },
      required: ["todos"],
      additionalProperties: false,
    }),
    idempotent: true,
    exclusive: true,
    readOnly: true,
    execute({ todos }, context) {
      const current = todos.filter(({ status }) => status === "in_progress");
      if (current.length > 1)
        throw new ToolFailure("too_many_in_progress", todoTexts.tooMany(current.length));
      taskBehind(context).output.emitter.append({
        type: "task.custom",
        name: "rivulet.todos",
        value: todos,
      });
      return todoTexts.written(todos.length, current[0]?.content);
    },
  });
}

/** The list as a note, once the call that wrote it is out of view. */
export function todoNote(context: HookContext, { from, notes }: ModelView): readonly Note[] {
  if (from === 0) return []; // everything is in view
  const messages = transcriptBehind(context);
  const shown = notes.get(noteKey);
  const oldest = Math.max(0, shown?.at ?? 0);
  const failed = new Set<string>();
  for (let at = messages.length - 1; at >= oldest; at--) {
    for (const block of (messages[at] as Message).content) {
      if (block.type === "tool_result" && block.name === toolName && block.state !== "success")
        failed.add(block.id);
      if (block.type !== "tool_use" || block.name !== toolName || failed.has(block.id)) continue;
      return at >= from ? [] : [noteOf(block)];
    }
  }
  return shown ? [{ key: noteKey, text: shown.text }] : [];
}

function noteOf({ input }: ToolUseBlock): Note {
  const { todos = [] } = input as { readonly todos?: readonly Todo[] };
  const lines = todos.map(({ content, status }) => `- ${marks[status]} ${oneLine(content)}`);
  const isEmpty = todos.every(({ status }) => status === "completed");
  return { key: noteKey, text: [todoTexts.list, ...lines].join("\n"), isEmpty };
}
