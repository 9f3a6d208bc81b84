import { lazy, Suspense, useEffect } from "react";
import { Composer } from "./composer.tsx";
import { Conversation } from "./conversation.tsx";
import { useKeys } from "./keys.ts";
import { Rail } from "./rail.tsx";
import { announcementsOf } from "./state/announcements.ts";
import { attach } from "./state/attachments.ts";
import { openFile } from "./state/open-file.ts";
import { useLog, useSessions } from "./state/sessions.ts";
import { announce, setUi, useUi } from "./state/ui.ts";
import { StreamBar } from "./stream/stream-bar.tsx";
import { TopBar } from "./top-bar.tsx";

// The first paint does not wait for what the person opens later.
const Panel = lazy(() => import("./panel/panel.tsx").then(({ Panel }) => ({ default: Panel })));
const Help = lazy(() => import("./help.tsx").then(({ Help }) => ({ default: Help })));

/** The page: which run, what the agents say, who runs, where in the log. */
export function App() {
  const view = useUi(({ view }) => view);
  const drawer = useUi(({ drawer }) => drawer);
  const isHelpOpen = useUi(({ isHelpOpen }) => isHelpOpen);
  const announcement = useUi(({ announcement }) => announcement);
  const status = useSessions(({ status }) => status);
  useKeys();
  useDrop();
  useAnnouncements();
  return (
    <div className="app" data-view={view} data-drawer={drawer}>
      <Rail />
      <main className="main">
        <TopBar />
        <Conversation />
        {status === "ready" && <Composer />}
      </main>
      <aside className="panel" aria-label="Agents of the run">
        <Suspense fallback={null}>
          <Panel />
        </Suspense>
      </aside>
      <StreamBar />
      {drawer && (
        <button
          type="button"
          className="scrim"
          aria-label="Close"
          onClick={() => setUi({ drawer: undefined })}
        />
      )}
      {isHelpOpen && (
        <Suspense fallback={null}>
          <Help />
        </Suspense>
      )}
      <div className="vh" role="status" aria-live="polite">
        {announcement}
      </div>
    </div>
  );
}

/** Tells a person who does not see the page what needs them, how a run ends, and whether the server answers. */
function useAnnouncements(): void {
  const log = useLog();
  useEffect(() => {
    let { tree, healing } = log?.getSnapshot() ?? {};
    return log?.subscribe(() => {
      const now = log.getSnapshot();
      // Events from before a run was opened are not announced.
      const isNews = log.isNew || tree?.rootId !== undefined;
      const said = tree && isNews ? [...announcementsOf(tree, log.liveTree)] : [];
      if (now.healing?.status === "held" && healing?.status !== "held")
        said.push("The connection is lost. The page tries again by itself.");
      if (now.healing?.status === "healed" && healing?.status === "held")
        said.push("The connection is back.");
      tree = log.liveTree;
      healing = now.healing;
      if (said.length > 0) announce(said.join(" "));
    });
  }, [log]);
}

/** A run file that is dropped anywhere on the page is replayed; every other file goes with the next question. */
function useDrop(): void {
  useEffect(() => {
    const onOver = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      document.body.classList.add("is-dropping");
    };
    const onLeave = (event: DragEvent) => {
      if (event.relatedTarget === null) document.body.classList.remove("is-dropping");
    };
    const onDrop = (event: DragEvent) => {
      const file = event.dataTransfer?.files[0];
      document.body.classList.remove("is-dropping");
      if (file === undefined) return;
      event.preventDefault();
      if (file.name.endsWith(".jsonl")) void openFile(file);
      else void attach(event.dataTransfer?.files ?? []);
    };
    document.addEventListener("dragover", onOver);
    document.addEventListener("dragleave", onLeave);
    document.addEventListener("drop", onDrop);
    return () => {
      document.removeEventListener("dragover", onOver);
      document.removeEventListener("dragleave", onLeave);
      document.removeEventListener("drop", onDrop);
    };
  }, []);
}
