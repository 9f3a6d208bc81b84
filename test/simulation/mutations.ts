/** A change of a rule of the driver or of the leases that a simulation must find. */
export interface RuleMutation {
  /** The rule that the change breaks. */
  readonly rule: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/** Each breaks one rule. */
export const mutations: readonly RuleMutation[] = [
  {
    rule: "only the owner commits",
    file: "src/store/memory.ts",
    from: "if (leases.losses(commit.lease) === undefined) throw fenced(commit.lease.sessionId);",
    to: "",
  },
  {
    rule: "an owner renews its lease",
    file: "src/agent/drive/conversation.ts",
    from: "const [lease] = await this.store.renew([this.#lease], this.#leaseMs);",
    to: "const [lease] = [this.#lease];",
  },
  {
    rule: "a live lease is not taken",
    file: "src/store/memory-leases.ts",
    from: "return ownership?.held ? judge.leftMs(ownership) : 0;",
    to: "return ownership?.held ? judge.leftMs(ownership) - 0.8 * ownership.ttl : 0;",
  },
  {
    rule: "a conversation with running tasks is not released",
    file: "src/agent/drive/conversation.ts",
    from: "if (this.drives.size > 0 || this.#holders > 0 ||",
    to: "if (this.#holders > 0 ||",
  },
  {
    rule: "a call with a result does not run again",
    file: "src/agent/loop/next.ts",
    from: "      this.#open.delete(block.id);\n",
    to: "      if (this.#open.size === 1) this.#open.delete(block.id);\n",
  },
  {
    rule: "an owner that was stopped renews its lease before it runs a tool",
    file: "src/agent/drive/conversation.ts",
    from: "if (performance.now() >= this.#heldUntil) await this.#renew();",
    to: "",
  },
  {
    rule: "a cancel ends the task wherever it runs",
    file: "src/agent/drive/conversation.ts",
    from: "    for (const { controller } of targets) controller.abort(reason);\n",
    to: "",
  },
  {
    rule: "a cancel stays until the task ends",
    file: "src/agent/loop/inbox.ts",
    from: "    task.control.claims.set(post.id, untilItEnds);\n",
    to: "",
  },
  {
    rule: "progress clears the losses",
    file: "src/store/memory.ts",
    from: "      leases.clearLosses(commit.lease.sessionId);\n",
    to: "",
  },
  {
    rule: "a post that is taken is in the transcript",
    file: "src/agent/loop/inbox.ts",
    from: "  await commitStep(task, arrived(task, due));",
    to: "  await commitStep(task, { ...arrived(task, due), messages: [] });",
  },
  {
    rule: "a conversation that closes is released",
    file: "src/agent/drive/conversation.ts",
    from: "    await this.store.release(this.#lease).catch(() => {}); // a lease expires by itself\n    this.#leaveTurn();",
    to: "    this.#leaveTurn();",
  },
  {
    rule: "an answer is for the call that asked",
    file: "src/agent/loop/next.ts",
    from: "      if (suspension?.approvalId !== approvalId) return;\n",
    to: "      if (suspension?.approvalId === approvalId) return;\n",
  },
];
