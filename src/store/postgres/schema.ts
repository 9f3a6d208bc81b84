/** The version of the tables and functions that this version of Rivulet uses. */
export const schemaVersion = 2;

/** The schema that statements name; `inSchema` replaces it by the one of a store. */
export const defaultSchema = "rivulet";

/** How many logs share one partition of `batches`. */
export const logsPerPartition = 16_384;

/**
 * The tables. Texts compare by their bytes, so that no update of a system library can change the order of an index. JSON
 * is text or bytes, because `jsonb` refuses NUL and lone surrogates. Times are milliseconds by the clock of the database.
 */
export const tables = `
  CREATE TABLE rivulet.meta (
    version int NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Until when one process trims the logs of all.
    trimming_until float8 NOT NULL DEFAULT 0
  );

  CREATE SEQUENCE rivulet.fences;
  CREATE SEQUENCE rivulet.file_versions;

  -- One row per root session: the lock of every write, and the lease. "due" is when the conversation may be listed
  -- without a live owner. "step" is the id of the owner's last acquisition or step, so that one whose answer was lost is
  -- not repeated. "rev" grows with every change but events. "work": a scheduler would start something. "watched": until
  -- when other processes want to hear of new events. The last columns say who may run it.
  CREATE TABLE rivulet.conversations (
    conv text COLLATE "C" PRIMARY KEY,
    fence bigint NOT NULL DEFAULT 0,
    owner text COLLATE "C",
    held boolean NOT NULL DEFAULT false,
    until float8 NOT NULL DEFAULT 0,
    ttl float8 NOT NULL DEFAULT 0,
    due float8 NOT NULL DEFAULT 0,
    losses int NOT NULL DEFAULT 0,
    step bigint NOT NULL DEFAULT 0,
    rev bigint NOT NULL DEFAULT 0,
    work boolean NOT NULL DEFAULT false,
    watched float8 NOT NULL DEFAULT 0,
    user_id text COLLATE "C",
    agent text COLLATE "C" NOT NULL DEFAULT '',
    version text COLLATE "C" NOT NULL DEFAULT '',
    place text COLLATE "C" NOT NULL DEFAULT '',
    priority smallint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
  CREATE INDEX conversations_due ON rivulet.conversations (due, conv) WHERE work;
  CREATE INDEX conversations_claim
    ON rivulet.conversations (agent, version, place, priority, due, conv) WHERE work;

  -- The processes that listen for the changes of others.
  CREATE TABLE rivulet.nodes (
    node text COLLATE "C" PRIMARY KEY,
    seen float8 NOT NULL,
    info text
  ) WITH (fillfactor = 50);

  -- A snapshot replaces the events up to "trimmed". "ended_at" is empty again when all are trimmed, and "bytes" is 0 when
  -- they are deleted. "timeline" is that of the server at the last append. A fork begins at a place of its parent.
  CREATE TABLE rivulet.logs (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log text COLLATE "C" NOT NULL UNIQUE,
    conv text COLLATE "C" NOT NULL,
    trimmed bigint NOT NULL DEFAULT -1,
    ended_at float8,
    bytes bigint NOT NULL DEFAULT 0,
    timeline int NOT NULL DEFAULT 0,
    parent_log bigint,
    parent_position bigint
  ) WITH (fillfactor = 80);
  CREATE INDEX logs_conv ON rivulet.logs (conv);
  CREATE INDEX logs_ended ON rivulet.logs (ended_at) WHERE bytes > 0;

  -- The events of a commit: "n" of them, up to number "last". The first byte of "events" is their format. "chain" is free
  -- for a hash over the rows before. Logs are numbered as they start, so a partition is a span of time.
  CREATE TABLE rivulet.batches (
    log bigint NOT NULL,
    last bigint NOT NULL,
    n int NOT NULL,
    fence bigint NOT NULL,
    events bytea NOT NULL,
    chain bytea,
    PRIMARY KEY (log, last)
  ) PARTITION BY RANGE (log);
  CREATE TABLE rivulet.batches_default PARTITION OF rivulet.batches DEFAULT;
  CREATE TABLE rivulet.batches_0 PARTITION OF rivulet.batches
    FOR VALUES FROM (0) TO (${logsPerPartition});

  CREATE TABLE rivulet.snapshots (
    log bigint PRIMARY KEY,
    tasks text NOT NULL
  );

  -- The columns from root_task_id on come from the session's first task.
  CREATE TABLE rivulet.sessions (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL UNIQUE,
    created_at float8 NOT NULL,
    updated_at float8 NOT NULL,
    messages int NOT NULL DEFAULT 0,
    visible_from int NOT NULL DEFAULT 0,
    title text,
    root_task_id text COLLATE "C",
    parent_session_id text COLLATE "C",
    user_id text COLLATE "C",
    agent_id text COLLATE "C"
  ) WITH (fillfactor = 70);
  CREATE INDEX sessions_user ON rivulet.sessions (user_id, no) WHERE parent_session_id IS NULL;
  CREATE INDEX sessions_listed ON rivulet.sessions (no) WHERE parent_session_id IS NULL;

  CREATE TABLE rivulet.messages (
    session bigint NOT NULL,
    position int NOT NULL,
    message text NOT NULL,
    PRIMARY KEY (session, position)
  );

  -- The words of messages in listed sessions.
  CREATE TABLE rivulet.search (
    session bigint NOT NULL,
    position int NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (session, position)
  );
  CREATE INDEX search_words ON rivulet.search USING gin (words);

  CREATE TABLE rivulet.tasks (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id text COLLATE "C" NOT NULL UNIQUE,
    root_task_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    parent_session_id text COLLATE "C",
    conv text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    output int NOT NULL,
    record text NOT NULL
  ) WITH (fillfactor = 70);
  CREATE INDEX tasks_session ON rivulet.tasks (session_id, no);
  CREATE INDEX tasks_root ON rivulet.tasks (root_task_id, no);
  CREATE INDEX tasks_conv ON rivulet.tasks (conv, no);
  CREATE INDEX tasks_parent ON rivulet.tasks (parent_session_id, no) WHERE parent_session_id IS NOT NULL;
  CREATE INDEX tasks_unfinished ON rivulet.tasks (session_id, no)
    WHERE status IN ('queued', 'in_progress', 'suspended');
  CREATE INDEX tasks_running ON rivulet.tasks (conv, no) WHERE status IN ('queued', 'in_progress');
  CREATE INDEX tasks_status ON rivulet.tasks (status, no)
    WHERE status IN ('queued', 'in_progress', 'suspended');

  -- Taken rows stay, because the first row of an id wins. task_id is the task that a row is for.
  CREATE TABLE rivulet.posts (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    post_id text COLLATE "C" NOT NULL UNIQUE,
    session_id text COLLATE "C" NOT NULL,
    root_task_id text COLLATE "C",
    task_id text COLLATE "C",
    conv text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    taken boolean NOT NULL DEFAULT false,
    post text NOT NULL
  ) WITH (fillfactor = 80);
  CREATE INDEX posts_conv ON rivulet.posts (conv, no) WHERE NOT taken;
  CREATE INDEX posts_waiting ON rivulet.posts (no) WHERE NOT taken;
  CREATE INDEX posts_session ON rivulet.posts (session_id, no);
  CREATE INDEX posts_root ON rivulet.posts (root_task_id, no) WHERE root_task_id IS NOT NULL;

  -- Approvals that expire and have no answer, with the session that asks for them. The id is JSON, because it comes from
  -- messages, which may have characters that PostgreSQL cannot store.
  CREATE TABLE rivulet.due (
    session_id text COLLATE "C" NOT NULL,
    approval text COLLATE "C" NOT NULL,
    due_at float8 NOT NULL,
    PRIMARY KEY (session_id, approval)
  );
  CREATE INDEX due_time ON rivulet.due (due_at, session_id);

  -- "hash" is free for files whose bytes are stored once by their content.
  CREATE TABLE rivulet.files (
    path text COLLATE "C" PRIMARY KEY,
    version bigint NOT NULL DEFAULT nextval('rivulet.file_versions'),
    size bigint NOT NULL,
    modified_at float8 NOT NULL,
    data bytea,
    hash bytea
  );
  ALTER TABLE rivulet.files ALTER data SET STORAGE EXTERNAL;
`;

/** What version 2 adds: the processes that run tasks, with what they can run as JSON, and the conversations of a user. */
export const processTables = `
  CREATE TABLE rivulet.processes (
    node text COLLATE "C" PRIMARY KEY,
    seen float8 NOT NULL,
    ttl float8 NOT NULL,
    info text NOT NULL
  ) WITH (fillfactor = 50);
  CREATE INDEX conversations_user ON rivulet.conversations (user_id) WHERE held AND user_id IS NOT NULL;
`;

/** A statement for the tables of another schema. */
export function inSchema(sql: string, schema: string): string {
  if (schema === defaultSchema) return sql;
  return sql.replaceAll(/\brivulet\./g, `"${schema}".`);
}
