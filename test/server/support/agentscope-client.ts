/** A status as AgentScope's own client reads it: every answer over 399 is the failure of the task. */
export interface TaskStatus {
  readonly status: string;
  readonly error?: string;
  readonly result?: string;
  readonly pending_confirms?: readonly PendingConfirm[];
}
export interface PendingConfirm {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly toolInputJson: string;
}
/** An event, with the fields that AgentScope's client knows. */
export interface RemoteEvent {
  readonly seq: number;
  readonly type: string;
  readonly taskId: string;
  readonly agentId: string;
  readonly timestamp: string;
  readonly text?: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly toolInput?: string;
  readonly status?: string;
  readonly error?: string;
  readonly pendingConfirms?: readonly PendingConfirm[];
}

/** A client of the AgentScope task protocol over plain HTTP, written from its description and not from our client. */
export function agentScopeClient(base: string, token?: string) {
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  const at = (path: string) => `${base.replace(/\/$/, "")}${path}`;
  const post = (path: string, body?: unknown) =>
    fetch(at(path), {
      method: "POST",
      headers: { ...headers, ...(body !== undefined && { "content-type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });

  return {
    async submit(taskId: string, agentId: string, input: string, context?: object) {
      const response = await post("/tasks", { task_id: taskId, agent_id: agentId, input, context });
      const text = await response.text();
      if (response.status >= 400)
        throw new Error(`submitTask failed: HTTP ${response.status} ${text}`);
      return JSON.parse(text) as { task_id: string; status: string };
    },
    async status(taskId: string): Promise<TaskStatus> {
      const response = await fetch(at(`/tasks/${encodeURIComponent(taskId)}`), { headers });
      if (response.status === 404) return { status: "error", error: "task not found" };
      const text = await response.text();
      if (response.status >= 400) return { status: "error", error: `HTTP ${response.status}` };
      return JSON.parse(text) as TaskStatus;
    },
    async wait(taskId: string, seconds: number): Promise<TaskStatus> {
      const path = `/tasks/${encodeURIComponent(taskId)}/wait?timeout_seconds=${seconds}`;
      const response = await fetch(at(path), { headers });
      if (response.status >= 400) throw new Error(`waitForResult failed: HTTP ${response.status}`);
      return (await response.json()) as TaskStatus;
    },
    async cancel(taskId: string) {
      const response = await post(`/tasks/${encodeURIComponent(taskId)}/cancel`);
      if (response.status >= 400) throw new Error(`cancelTask failed: HTTP ${response.status}`);
    },
    async resume(taskId: string, decisions: readonly object[]) {
      const response = await post(`/tasks/${encodeURIComponent(taskId)}/resume`, { decisions });
      const text = await response.text();
      if (response.status >= 400)
        throw new Error(`resumeTask failed: HTTP ${response.status} ${text}`);
      return JSON.parse(text) as { status: string };
    },
    /** The events from a number on, line by line as the client reads them; 404 and 405 mean no streaming. */
    async *events(taskId: string, fromSeq = 0): AsyncGenerator<RemoteEvent, void, undefined> {
      const query = fromSeq > 0 ? `?from_seq=${fromSeq}` : "";
      const resumed: Record<string, string> = fromSeq > 0 ? { "last-event-id": `${fromSeq}` } : {};
      const response = await fetch(at(`/tasks/${encodeURIComponent(taskId)}/events${query}`), {
        headers: { ...headers, ...resumed, accept: "text/event-stream" },
      });
      if (response.status === 404 || response.status === 405) return;
      if (response.status >= 400)
        throw new Error(`openEventStream failed: HTTP ${response.status}`);
      let text = "";
      let data = "";
      const decoder = new TextDecoder();
      for await (const chunk of response.body as ReadableStream<Uint8Array>) {
        text += decoder.decode(chunk, { stream: true });
        for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n")) {
          const line = text.slice(0, end);
          text = text.slice(end + 1);
          if (line === "" && data !== "") {
            yield JSON.parse(data) as RemoteEvent;
            data = "";
          } else if (line.startsWith("data:")) data += line.slice(5).trimStart();
        }
      }
    },
  };
}
