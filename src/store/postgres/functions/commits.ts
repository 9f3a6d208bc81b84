import { unfinished } from "./unfinished.ts";

/** Writes commits. */
export const commits = `
  -- Writes commits in order, all or none: the first that is refused undoes them, and its place is in the detail. The
  -- texts and events are in "body". A conversation whose last step is the given one has been written before.
  CREATE FUNCTION rivulet.commit_1(commits jsonb, body bytea, given float8, line int)
  RETURNS TABLE (log_no bigint, after bigint, touched text[], is_done boolean, new_rev bigint, listening bigint)
  LANGUAGE plpgsql AS $$
    DECLARE
      c jsonb;
      x jsonb;
      v record;
      s record;
      p record;
      begun record;
      busy record;
      now float8;
      base int;
      place int := -1;
      count int;
      own text[] := '{}';
      steps bigint[] := '{}';
      done text[] := '{}';
      progressed text[] := '{}';
      affected text[] := '{}';
      given_convs text[];
      late int[] := '{}';
      post_keys text[];
    BEGIN
      given_convs := ARRAY(SELECT DISTINCT e->>'conv' FROM jsonb_array_elements(commits) e);
      PERFORM 1 FROM rivulet.conversations WHERE conv = ANY (given_convs) ORDER BY conv FOR UPDATE;
      now := rivulet.now_ms_1(given);
      listening := rivulet.listening_1();
      FOR c IN SELECT * FROM jsonb_array_elements(commits) LOOP
        place := place + 1;
        base := (c->>'base')::int;
        log_no := NULL; after := NULL; touched := '{}'; is_done := false;
        SELECT conv, step, losses, rev INTO v FROM rivulet.conversations
          WHERE conv = c->>'conv' AND fence = (c->>'fence')::bigint AND held;
        IF NOT FOUND THEN
          late := late || place;
          CONTINUE;
        END IF;
        new_rev := v.rev + 1;
        IF v.step = (c->>'step')::bigint THEN
          is_done := true;
          done := done || v.conv;
          new_rev := v.rev;
          RETURN NEXT;
          CONTINUE;
        END IF;
        IF NOT v.conv = ANY (own) THEN
          own := own || v.conv;
          steps := steps || (c->>'step')::bigint;
        END IF;

        FOR x IN SELECT * FROM jsonb_array_elements(c->'tasks') LOOP
          IF v.losses > 0 THEN
            SELECT output, status INTO p FROM rivulet.tasks WHERE task_id = x->>'id';
            IF (x->>'output')::int > coalesce(p.output, 0) OR
              (x->>'status' NOT IN ('queued', 'in_progress') AND p.status IS DISTINCT FROM x->>'status') THEN
              progressed := progressed || v.conv;
            END IF;
          END IF;
          IF x->>'id' = c->>'begins' THEN
            SELECT user_id INTO s FROM rivulet.sessions
              WHERE session_id = x->>'session' AND root_task_id IS NOT NULL;
            IF FOUND AND s.user_id IS DISTINCT FROM x->>'user' THEN
              PERFORM rivulet.refuse_1('RV004', x->>'session', jsonb_build_object('at', place));
            END IF;
          END IF;
          affected := affected || rivulet.put_task_1(x, body, base, now, place);
        END LOOP;

        IF c ? 'begins' THEN
          SELECT no, session_id, status INTO begun FROM rivulet.tasks WHERE task_id = c->>'begins';
          IF NOT FOUND THEN
            PERFORM rivulet.refuse_1('RV002', format('Task %s does not exist.', c->>'begins'),
              jsonb_build_object('at', place));
          END IF;
          IF begun.status IN ${unfinished} THEN
            SELECT task_id, status INTO busy FROM rivulet.tasks
              WHERE session_id = begun.session_id AND no < begun.no AND status IN ${unfinished}
              ORDER BY no LIMIT 1;
            IF FOUND THEN
              PERFORM rivulet.refuse_1('RV003', begun.session_id, jsonb_build_object('at', place,
                'session', begun.session_id, 'task', busy.task_id, 'status', busy.status));
            END IF;
          END IF;
        END IF;

        IF c ? 'batches' THEN
          IF c ? 'no' THEN
            log_no := (c->>'no')::bigint;
            after := (c->>'after')::bigint;
          ELSE
            SELECT l.no, l.conv, greatest(l.trimmed, coalesce(
                (SELECT b.last FROM rivulet.batches b WHERE b.log = l.no ORDER BY b.last DESC LIMIT 1), -1)) AS last
              INTO s FROM rivulet.logs l WHERE l.log = c->>'log';
            IF NOT FOUND THEN
              INSERT INTO rivulet.logs (log, conv, timeline) VALUES (c->>'log', v.conv, line)
                RETURNING no, conv, -1::bigint AS last INTO s;
            END IF;
            IF s.conv <> v.conv THEN
              PERFORM rivulet.refuse_1('RV002', format('Log %s belongs to conversation %s.', c->>'log', s.conv),
                jsonb_build_object('at', place));
            END IF;
            log_no := s.no;
            after := s.last;
          END IF;
          INSERT INTO rivulet.batches (log, last, n, fence, events)
            SELECT log_no, after + sum((e->>0)::int) OVER (ORDER BY i), (e->>0)::int, (c->>'fence')::bigint,
              substring(body FROM base + (e->>1)::int FOR (e->>2)::int)
            FROM jsonb_array_elements(c->'batches') WITH ORDINALITY AS g(e, i);
        END IF;
        IF c ? 'ended' THEN
          UPDATE rivulet.logs l SET ended_at = now,
              bytes = (SELECT coalesce(sum(octet_length(events)), 0) FROM rivulet.batches WHERE log = l.no)
            WHERE l.log = c->>'log'
              AND EXISTS (SELECT 1 FROM rivulet.tasks WHERE task_id = l.log AND status NOT IN ${unfinished})
              AND NOT EXISTS (
                SELECT 1 FROM rivulet.tasks WHERE root_task_id = l.log AND status IN ${unfinished});
        END IF;

        FOR x IN SELECT * FROM jsonb_array_elements(c->'appends') LOOP
          SELECT no, messages, parent_session_id, user_id INTO s
            FROM rivulet.sessions WHERE session_id = x->>'session' FOR UPDATE;
          IF NOT FOUND THEN
            INSERT INTO rivulet.sessions (session_id, created_at, updated_at) VALUES (x->>'session', now, now)
              RETURNING no, messages, parent_session_id, user_id INTO s;
          END IF;
          IF s.messages <> (x->>'at')::int THEN
            PERFORM rivulet.refuse_1('RV002',
              format('Session %s has %s messages, not %s.', x->>'session', s.messages, x->>'at'),
              jsonb_build_object('at', place));
          END IF;
          count := jsonb_array_length(x->'messages');
          INSERT INTO rivulet.messages (session, position, message)
            SELECT s.no, s.messages + i - 1, rivulet.text_1(body, e, base)
            FROM jsonb_array_elements(x->'messages') WITH ORDINALITY AS g(e, i);
          IF s.parent_session_id IS NULL THEN
            INSERT INTO rivulet.search (session, position, words)
              SELECT s.no, s.messages + i - 1,
                rivulet.text_1(body, e, base)::tsvector || rivulet.user_word_1(s.user_id)
              FROM jsonb_array_elements(x->'words') WITH ORDINALITY AS g(e, i) WHERE e <> 'null';
          END IF;
          FOR p IN SELECT e->>0 AS id, (e->>1)::float8 AS due_at FROM jsonb_array_elements(x->'due') e LOOP
            DELETE FROM rivulet.due WHERE session_id = x->>'session' AND approval = p.id;
            INSERT INTO rivulet.due (session_id, approval, due_at)
              SELECT x->>'session', p.id, p.due_at WHERE p.due_at IS NOT NULL;
          END LOOP;
          UPDATE rivulet.sessions SET messages = s.messages + count, updated_at = now,
              title = coalesce(title, x->>'title'),
              visible_from = coalesce((x->>'visibleFrom')::int, visible_from)
            WHERE no = s.no;
        END LOOP;

        FOR x IN SELECT * FROM jsonb_array_elements(c->'posts') LOOP
          post_keys := rivulet.put_post_1(x, body, base);
          IF post_keys <> '{}' THEN affected := affected || substring(post_keys[1] FROM 2); END IF;
          touched := touched || post_keys;
        END LOOP;
        FOR x IN SELECT * FROM jsonb_array_elements(c->'taken') LOOP
          UPDATE rivulet.posts SET taken = true WHERE post_id = x#>>'{}' AND NOT taken
            RETURNING session_id, conv, root_task_id INTO p;
          IF NOT FOUND THEN
            PERFORM rivulet.refuse_1('RV002', format('Post %s %s.', x#>>'{}', CASE WHEN EXISTS (
                SELECT 1 FROM rivulet.posts WHERE post_id = x#>>'{}') THEN 'is already taken' ELSE 'does not exist' END),
              jsonb_build_object('at', place));
          END IF;
          affected := affected || p.conv;
          touched := touched || ARRAY['s' || p.session_id, 's' || p.conv]
            || CASE WHEN p.root_task_id IS NULL THEN '{}' ELSE ARRAY['t' || p.root_task_id] END;
        END LOOP;
        RETURN NEXT;
      END LOOP;

      IF late <> '{}' THEN
        PERFORM rivulet.refuse_1('RV001', 'fenced', jsonb_build_object('late', late));
      END IF;
      IF own <> '{}' THEN
        UPDATE rivulet.conversations w SET step = g.step, rev = w.rev + 1,
            work = CASE WHEN w.conv = ANY (affected) THEN rivulet.has_work_1(w.conv) ELSE w.work END,
            losses = CASE WHEN w.conv = ANY (progressed) THEN 0 ELSE w.losses END,
            due = CASE WHEN w.conv = ANY (progressed) THEN w.until ELSE w.due END
          FROM unnest(own, steps) AS g(conv, step) WHERE w.conv = g.conv;
      END IF;
      affected := ARRAY(SELECT DISTINCT a FROM unnest(affected) a WHERE NOT a = ANY (own));
      IF affected <> '{}' THEN PERFORM rivulet.note_work_1(affected); END IF;
    END
  $$;

  -- Appends events whose numbers their owner knows. Returns the places of the rows that were written: the others are
  -- fenced. The lock of a row keeps an owner that was replaced from writing after its successor.
  CREATE FUNCTION rivulet.append_1(convs text[], fences bigint[], logs bigint[], lasts bigint[], ns int[], ats int[],
    lens int[], body bytea) RETURNS TABLE (place bigint, is_watched boolean, listening bigint) LANGUAGE plpgsql AS $$
    BEGIN
      RETURN QUERY
        WITH l AS MATERIALIZED (
          SELECT v.conv, v.fence, v.held, v.watched FROM rivulet.conversations v
          WHERE v.conv = ANY (convs) ORDER BY v.conv FOR UPDATE
        ), ok AS (
          SELECT g.*, l.watched FROM unnest(convs, fences, logs, lasts, ns, ats, lens)
            WITH ORDINALITY AS g(conv, fence, log, last, n, at, len, i)
          JOIN l ON l.conv = g.conv AND l.fence = g.fence AND l.held
        ), written AS (
          INSERT INTO rivulet.batches (log, last, n, fence, events)
          SELECT log, last, n, fence, substring(body FROM at FOR len) FROM ok
        )
        SELECT i, watched > (SELECT rivulet.now_ms_1(NULL)), (SELECT rivulet.listening_1()) FROM ok;
    END
  $$;
`;
