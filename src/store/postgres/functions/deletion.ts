/** Trims logs and deletes conversations. */
export const deletion = `
  CREATE FUNCTION rivulet.trim_1(name text, through bigint, snapshot text) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      l record;
      last bigint;
    BEGIN
      SELECT no, trimmed INTO l FROM rivulet.logs WHERE log = name FOR UPDATE;
      IF FOUND THEN
        last := greatest(l.trimmed, (SELECT max(b.last) FROM rivulet.batches b WHERE b.log = l.no));
      END IF;
      IF last IS NULL OR through > last THEN
        PERFORM rivulet.refuse_1('RV002',
          format('Log %s ends at %s, before %s.', name, coalesce(last, -1), through), '{}');
      END IF;
      IF through <= l.trimmed THEN RETURN NULL; END IF;
      -- A log without events needs no further trim.
      UPDATE rivulet.logs SET trimmed = through, ended_at = CASE WHEN through < last THEN ended_at END WHERE no = l.no;
      INSERT INTO rivulet.snapshots (log, tasks) VALUES (l.no, snapshot)
        ON CONFLICT (log) DO UPDATE SET tasks = excluded.tasks;
      RETURN l.no;
    END
  $$;

  -- Drops a partition whose logs are all trimmed; returns false if one has events, or if the table is busy.
  CREATE FUNCTION rivulet.drop_partition_1(part int, size int) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
      IF EXISTS (SELECT 1 FROM rivulet.logs WHERE no >= part::bigint * size AND no < (part + 1)::bigint * size
        AND trimmed < 0) THEN RETURN false; END IF;
      PERFORM set_config('lock_timeout', '500ms', true);
      EXECUTE format('LOCK TABLE rivulet.batches_%s IN ACCESS EXCLUSIVE MODE', part);
      IF EXISTS (SELECT 1 FROM rivulet.logs l WHERE no >= part::bigint * size AND no < (part + 1)::bigint * size
        AND (SELECT max(b.last) FROM rivulet.batches b WHERE b.log = l.no) > l.trimmed) THEN RETURN false; END IF;
      EXECUTE format('DROP TABLE rivulet.batches_%s', part);
      UPDATE rivulet.logs SET bytes = 0 WHERE no >= part::bigint * size AND no < (part + 1)::bigint * size AND bytes > 0;
      RETURN true;
    EXCEPTION WHEN lock_not_available THEN RETURN false;
    END
  $$;

  -- Creates the next partition when the newest is half full. Numbers between two partitions are in the default one.
  CREATE FUNCTION rivulet.add_partition_1(newest int, size int) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
      used bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('rivulet.logs', 'no')), 0);
      next int := greatest(newest, used / size) + 1;
    BEGIN
      IF used < (newest + 1)::bigint * size - size / 2 THEN RETURN; END IF;
      PERFORM set_config('lock_timeout', '500ms', true);
      EXECUTE format('CREATE TABLE IF NOT EXISTS rivulet.batches_%s PARTITION OF rivulet.batches FOR VALUES FROM (%s) TO (%s)',
        next, next::bigint * size, (next + 1)::bigint * size);
    EXCEPTION WHEN lock_not_available THEN RETURN;
    END
  $$;

  CREATE FUNCTION rivulet.delete_1(id text, given float8) RETURNS TABLE (existed boolean, touched text[])
  LANGUAGE plpgsql AS $$
    DECLARE
      c text := rivulet.conversation_of_1(NULL, id);
      v record;
      numbers bigint[];
      ids text[];
      names text[];
      in_sessions text[];
      task text;
    BEGIN
      IF c <> id THEN
        PERFORM rivulet.refuse_1('RV002', format('Session %s is part of conversation %s.', id, c), '{}');
      END IF;
      PERFORM rivulet.lock_1(ARRAY[id]);
      SELECT held, until, ttl INTO v FROM rivulet.conversations WHERE conv = id;
      IF v.held AND v.until > rivulet.now_ms_1(given) THEN
        PERFORM rivulet.refuse_1('RV002', format('Session %s has a live owner.', id), '{}');
      END IF;
      SELECT coalesce(array_agg(task_id), '{}'), coalesce(array_agg(DISTINCT session_id), '{}')
        INTO ids, in_sessions FROM rivulet.tasks WHERE session_id = id OR root_task_id = ANY (
          ARRAY(SELECT task_id FROM rivulet.tasks WHERE session_id = id));
      in_sessions := in_sessions || id;
      DELETE FROM rivulet.tasks WHERE task_id = ANY (ids);
      DELETE FROM rivulet.posts WHERE root_task_id = ANY (ids) OR session_id = ANY (in_sessions);
      -- "0" follows "/" in the order of paths.
      FOR task IN SELECT unnest(ids) LOOP
        DELETE FROM rivulet.files WHERE path >= 'blobs/' || task || '/' AND path < 'blobs/' || task || '0';
      END LOOP;
      SELECT array_agg(no) INTO numbers FROM rivulet.sessions WHERE session_id = ANY (in_sessions);
      DELETE FROM rivulet.due WHERE session_id = ANY (in_sessions);
      DELETE FROM rivulet.messages WHERE session = ANY (numbers);
      DELETE FROM rivulet.search WHERE session = ANY (numbers);
      DELETE FROM rivulet.sessions WHERE no = ANY (numbers);
      existed := FOUND;
      SELECT array_agg(no), array_agg(log) INTO numbers, names FROM rivulet.logs WHERE conv = id;
      DELETE FROM rivulet.batches WHERE log = ANY (numbers);
      DELETE FROM rivulet.snapshots WHERE log = ANY (numbers);
      DELETE FROM rivulet.logs WHERE no = ANY (numbers);
      UPDATE rivulet.conversations SET fence = nextval('rivulet.fences'), held = false, owner = NULL, until = 0,
        ttl = 0, due = 0, losses = 0, rev = rev + 1, work = rivulet.has_work_1(id), user_id = NULL, agent = '',
        version = '', place = '', priority = 0 WHERE conv = id;
      touched := ARRAY(SELECT 't' || x FROM unnest(ids) x UNION SELECT 's' || x FROM unnest(in_sessions) x
        UNION SELECT 'l' || x FROM unnest(names) x);
      RETURN NEXT;
    END
  $$;
`;
