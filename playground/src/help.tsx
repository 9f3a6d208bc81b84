import { useEffect, useRef } from "react";
import { store } from "./state/storage.ts";
import { setUi, useUi } from "./state/ui.ts";

const groups: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  [
    "Runs",
    [
      ["/", "Search runs"],
      ["n", "New run"],
      ["esc", "Close, or stop the run"],
    ],
  ],
  [
    "Agents",
    [
      ["↑ ↓ ← →", "Move in the tree"],
      ["f", "Focus the selected agent"],
      ["⇧f", "Fold or unfold all"],
      ["s", "Steer the selected agent"],
      ["x", "Cancel it with its agents"],
    ],
  ],
  [
    "Approvals",
    [
      ["g a", "Go to the next approval"],
      ["a", "Approve, inside its card"],
      ["e", "Edit, inside its card"],
      ["d", "Deny with a reason, inside its card"],
      ["⇧a", "Always, inside its card"],
    ],
  ],
  [
    "Log",
    [
      ["space", "Play or pause"],
      [", .", "One event back or forth"],
      ["< >", "A hundred events"],
      ["l", "Return to live"],
      ["c", "Copy the event"],
      ["t", "Timeline"],
      ["i", "Inspector"],
      ["k", "Kill the server (demo)"],
    ],
  ],
];

/** All keys of the page. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const hasKeys = useUi(({ hasKeys }) => hasKeys);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      className="help"
      aria-label="Keys"
      onClose={() => setUi({ isHelpOpen: false })}
    >
      <h1>Keys</h1>
      <div className="keys">
        {groups.map(([name, rows]) => (
          <section key={name}>
            <h2>{name}</h2>
            <dl>
              {rows.map(([key, meaning]) => (
                <div key={key}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{meaning}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <div className="acts">
        <label>
          <input
            type="checkbox"
            checked={hasKeys}
            onChange={({ target }) => {
              store("keys", target.checked ? "on" : "off");
              setUi({ hasKeys: target.checked });
            }}
          />{" "}
          Use single keys
        </label>
        <span className="grow" />
        <button type="button" className="btn" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
    </dialog>
  );
}
