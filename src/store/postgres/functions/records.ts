import { unfinished } from "./unfinished.ts";

/** Writes records of tasks. */
export const tasks = `
  -- Adds or replaces a record and what is derived from it. Returns the conversations whose work may have changed.
  CREATE FUNCTION rivulet.put_task_1(t jsonb, body bytea, base int, now float8, at int) RETURNS text[]
  LANGUAGE plpgsql AS $$
    DECLARE
      old record;
      s record;
      own text;
      affected text[] := '{}';
      is_new boolean;
      is_root boolean := t->>'root' = t->>'id';
      moved text[] := '{}';
    BEGIN
      SELECT no, root_task_id, session_id, parent_session_id, conv, status INTO old
        FROM rivulet.tasks WHERE task_id = t->>'id';
      is_new := NOT FOUND;
      IF NOT is_new AND old.status NOT IN ${unfinished} AND old.status <> t->>'status' THEN
        PERFORM rivulet.refuse_1('RV002', format('Task %s has ended as %s.', t->>'id', old.status),
          jsonb_build_object('at', at));
      END IF;
      IF NOT is_new AND old.root_task_id = t->>'root' AND old.session_id = t->>'session'
        AND old.parent_session_id IS NOT DISTINCT FROM t->>'parent' THEN
        own := old.conv;
        IF old.status <> t->>'status' THEN affected := ARRAY[own]; END IF;
        UPDATE rivulet.tasks SET status = t->>'status', output = (t->>'output')::int,
          record = rivulet.text_1(body, t->'record', base) WHERE no = old.no;
      ELSE
        own := CASE WHEN is_root THEN t->>'session'
          ELSE rivulet.conversation_of_1(t->>'root', t->>'session') END;
        affected := ARRAY[own];
        IF NOT is_new THEN affected := affected || old.conv; END IF;
        INSERT INTO rivulet.tasks
            (task_id, root_task_id, session_id, parent_session_id, conv, status, output, record)
          VALUES (t->>'id', t->>'root', t->>'session', t->>'parent', own, t->>'status',
            (t->>'output')::int, rivulet.text_1(body, t->'record', base))
          ON CONFLICT (task_id) DO UPDATE SET root_task_id = excluded.root_task_id,
            session_id = excluded.session_id, parent_session_id = excluded.parent_session_id,
            conv = excluded.conv, status = excluded.status, output = excluded.output,
            record = excluded.record;
        IF is_root THEN
          -- Tasks of the tree that were written before their root.
          WITH before AS (
            SELECT no, conv FROM rivulet.tasks WHERE root_task_id = t->>'id' AND conv <> own
          ), changed AS (
            UPDATE rivulet.tasks c SET conv = own FROM before WHERE c.no = before.no
            RETURNING c.session_id, before.conv AS old_conv
          )
          SELECT coalesce(array_agg(DISTINCT session_id), '{}'),
            affected || coalesce(array_agg(DISTINCT old_conv), '{}')
            INTO moved, affected FROM changed;
        END IF;
      END IF;

      SELECT no, root_task_id, updated_at INTO s
        FROM rivulet.sessions WHERE session_id = t->>'session';
      IF NOT FOUND THEN
        INSERT INTO rivulet.sessions
            (session_id, created_at, updated_at, root_task_id, parent_session_id, user_id, agent_id)
          VALUES (t->>'session', now, now, t->>'root', t->>'parent', t->>'user', t->>'agent');
      ELSIF s.root_task_id IS NULL THEN
        UPDATE rivulet.sessions SET updated_at = now, root_task_id = t->>'root',
          parent_session_id = t->>'parent', user_id = t->>'user', agent_id = t->>'agent' WHERE no = s.no;
        IF t->>'parent' IS NULL THEN
          UPDATE rivulet.search SET words = words || rivulet.user_word_1(t->>'user') WHERE session = s.no;
        ELSE
          DELETE FROM rivulet.search WHERE session = s.no;
        END IF;
      ELSIF (t->>'touch')::boolean AND s.updated_at <> now THEN
        UPDATE rivulet.sessions SET updated_at = now WHERE no = s.no;
      END IF;

      IF t->>'status' NOT IN ${unfinished} THEN
        DELETE FROM rivulet.due WHERE session_id = t->>'session';
      END IF;
      IF is_new THEN
        WITH waiting AS (
          SELECT no, conv, rivulet.conversation_of_1(root_task_id, session_id) AS now_in
          FROM rivulet.posts WHERE NOT taken AND (root_task_id = t->>'id'
            OR session_id = ANY (moved || (t->>'session')))
        ), changed AS (
          UPDATE rivulet.posts p SET conv = waiting.now_in FROM waiting
          WHERE p.no = waiting.no AND p.conv <> waiting.now_in
          RETURNING waiting.conv AS old_conv, waiting.now_in
        )
        SELECT affected || coalesce(array_agg(old_conv), '{}') || coalesce(array_agg(now_in), '{}')
          INTO affected FROM changed;
      END IF;
      IF is_root AND (is_new OR t ? 'version' OR t ? 'place' OR t ? 'priority') THEN
        PERFORM rivulet.lock_1(ARRAY[own]);
        UPDATE rivulet.conversations SET user_id = t->>'user', agent = t->>'agent',
            version = coalesce(t->>'version', ''), place = coalesce(t->>'place', ''),
            priority = coalesce(sign((t->>'priority')::float8), 0)
          WHERE conv = own AND (user_id, agent, version, place, priority) IS DISTINCT FROM
            (t->>'user', t->>'agent', coalesce(t->>'version', ''), coalesce(t->>'place', ''),
              coalesce(sign((t->>'priority')::float8), 0));
      END IF;
      RETURN affected;
    END
  $$;

  -- Adds a queued root task, unless there is a record of its id. Returns the stored record.
  CREATE FUNCTION rivulet.enqueue_1(t jsonb, body bytea, idle boolean, given float8, OUT stored text, OUT is_new boolean, OUT new_rev bigint)
  LANGUAGE plpgsql AS $$
    DECLARE
      old record;
      first record;
    BEGIN
      PERFORM rivulet.lock_1(ARRAY[t->>'session']);
      SELECT record, (record::json)->>'userId' AS user_id INTO old FROM rivulet.tasks WHERE task_id = t->>'id';
      is_new := NOT FOUND;
      IF NOT is_new THEN
        IF old.user_id IS DISTINCT FROM t->>'user' THEN
          PERFORM rivulet.refuse_1('RV004', t->>'session', '{}');
        END IF;
        stored := old.record;
        RETURN;
      END IF;
      SELECT user_id INTO first FROM rivulet.sessions
        WHERE session_id = t->>'session' AND root_task_id IS NOT NULL;
      IF FOUND AND first.user_id IS DISTINCT FROM t->>'user' THEN
        PERFORM rivulet.refuse_1('RV004', t->>'session', '{}');
      END IF;
      IF idle THEN
        SELECT task_id, status INTO old FROM rivulet.tasks
          WHERE session_id = t->>'session' AND status IN ${unfinished}
          ORDER BY status = 'suspended', no LIMIT 1;
        IF FOUND THEN
          PERFORM rivulet.refuse_1(CASE WHEN old.status = 'suspended' THEN 'RV005' ELSE 'RV003' END,
            t->>'session', jsonb_build_object('session', t->>'session', 'task', old.task_id, 'status', old.status));
        END IF;
      END IF;
      PERFORM rivulet.note_work_1(rivulet.put_task_1(t, body, 1, rivulet.now_ms_1(given), 0));
      stored := rivulet.text_1(body, t->'record', 1);
      SELECT rev INTO new_rev FROM rivulet.conversations WHERE conv = t->>'session';
    END
  $$;
`;

/** Writes rows of inboxes. */
export const posts = `
  -- Adds a row unless its id exists. Returns the keys to wake, and the conversation as the first of them.
  CREATE FUNCTION rivulet.put_post_1(p jsonb, body bytea, base int) RETURNS text[] LANGUAGE plpgsql AS $$
    DECLARE
      c text := rivulet.conversation_of_1(p->>'root', p->>'session');
    BEGIN
      INSERT INTO rivulet.posts (post_id, session_id, root_task_id, task_id, conv, kind, post)
        VALUES (p->>'id', p->>'session', p->>'root', p->>'task', c, p->>'kind',
          rivulet.text_1(body, p->'post', base))
        ON CONFLICT (post_id) DO NOTHING;
      IF NOT FOUND THEN RETURN '{}'; END IF;
      RETURN ARRAY['s' || c, 'i' || c, 's' || (p->>'session'), 'i' || (p->>'session')]
        || CASE WHEN p->>'root' IS NULL THEN '{}' ELSE ARRAY['t' || (p->>'root')] END;
    END
  $$;

  CREATE FUNCTION rivulet.post_1(ps jsonb, body bytea)
  RETURNS TABLE (stored text, touched text[], new_conv text, new_rev bigint) LANGUAGE plpgsql AS $$
    DECLARE
      p jsonb;
      convs text[] := '{}';
    BEGIN
      PERFORM rivulet.lock_1(ARRAY(
        SELECT rivulet.conversation_of_1(e->>'root', e->>'session') FROM jsonb_array_elements(ps) e));
      FOR p IN SELECT * FROM jsonb_array_elements(ps) LOOP
        touched := rivulet.put_post_1(p, body, 1);
        new_conv := substring(touched[1] FROM 2);
        IF new_conv IS NOT NULL THEN convs := convs || new_conv; END IF;
        SELECT rev + 1 INTO new_rev FROM rivulet.conversations WHERE conv = new_conv;
        SELECT post INTO stored FROM rivulet.posts WHERE post_id = p->>'id';
        RETURN NEXT;
      END LOOP;
      IF convs <> '{}' THEN PERFORM rivulet.note_work_1(convs); END IF;
    END
  $$;
`;
