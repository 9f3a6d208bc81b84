import { unfinished } from "./unfinished.ts";

/** Locks, times, refusals, and whether a conversation has work. */
export const basics = `
  CREATE FUNCTION rivulet.now_ms_1(given float8) RETURNS float8 LANGUAGE sql AS $$
    SELECT coalesce(given, extract(epoch FROM clock_timestamp())::float8 * 1000)
  $$;

  CREATE FUNCTION rivulet.text_1(body bytea, place jsonb, base int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT convert_from(substring(body FROM base + (place->>0)::int FOR (place->>1)::int), 'UTF8')
  $$;

  -- How many processes listen for the changes of others.
  CREATE FUNCTION rivulet.listening_1() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM rivulet.nodes WHERE seen > rivulet.now_ms_1(NULL) - 30000
  $$;

  -- Undoes the transaction. The detail tells the store which commits were refused, and why.
  CREATE FUNCTION rivulet.refuse_1(state text, message text, detail jsonb) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail::text;
    END
  $$;

  CREATE FUNCTION rivulet.conversation_of_1(root text, session text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(
      (SELECT session_id FROM rivulet.tasks WHERE task_id = coalesce(root,
        (SELECT root_task_id FROM rivulet.sessions WHERE session_id = session))),
      session)
  $$;

  CREATE FUNCTION rivulet.lock_1(convs text[]) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO rivulet.conversations (conv)
        SELECT DISTINCT given FROM unnest(convs) AS given
        WHERE NOT EXISTS (SELECT 1 FROM rivulet.conversations WHERE conv = given)
        ORDER BY given ON CONFLICT DO NOTHING;
      PERFORM 1 FROM rivulet.conversations WHERE conv = ANY (convs) ORDER BY conv FOR UPDATE;
    END
  $$;

  -- Whether a scheduler would start something in a conversation: see \`Store.expired\`.
  CREATE FUNCTION rivulet.has_work_1(c text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
      SELECT 1 FROM rivulet.tasks WHERE conv = c AND status IN ('queued', 'in_progress')
    ) OR EXISTS (
      SELECT 1 FROM rivulet.posts p WHERE p.conv = c AND NOT p.taken AND CASE
        WHEN p.kind = 'hint' THEN false
        WHEN p.kind = 'input' THEN p.task_id IS NULL AND p.session_id = p.conv AND NOT EXISTS (
          SELECT 1 FROM rivulet.tasks t WHERE t.session_id = p.session_id AND t.status IN ${unfinished})
        WHEN p.task_id IS NOT NULL
          THEN EXISTS (SELECT 1 FROM rivulet.tasks t WHERE t.task_id = p.task_id)
        WHEN p.root_task_id IS NOT NULL
          THEN EXISTS (SELECT 1 FROM rivulet.tasks t WHERE t.root_task_id = p.root_task_id)
        ELSE EXISTS (SELECT 1 FROM rivulet.tasks t WHERE t.session_id = p.session_id)
      END)
  $$;

  -- The locks come first: a statement that computed "work" before it waited would write an old answer.
  CREATE FUNCTION rivulet.note_work_1(convs text[]) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM rivulet.lock_1(convs);
      UPDATE rivulet.conversations v SET work = rivulet.has_work_1(v.conv), rev = v.rev + 1
        WHERE v.conv = ANY (convs);
    END
  $$;

  CREATE FUNCTION rivulet.user_word_1(given text) RETURNS tsvector LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN given IS NULL THEN ''::tsvector
      ELSE ('''@' || encode(convert_to(given, 'UTF8'), 'hex') || '''')::tsvector END
  $$;
`;
