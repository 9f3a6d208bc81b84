/** Lists and claims conversations without a live owner. */
export const leases = `
  -- A lease that ends later than its time to live was taken before the clock was set back: it is shortened.
  CREATE FUNCTION rivulet.shorten_1(convs text[], given float8) RETURNS void LANGUAGE sql AS $$
    UPDATE rivulet.conversations v SET until = t.now + v.ttl, due = t.now + v.ttl * (1 + v.losses)
    FROM (SELECT rivulet.now_ms_1(given) AS now) t
    WHERE v.conv = ANY (convs) AND v.held AND v.until > t.now + v.ttl
  $$;

  CREATE FUNCTION rivulet.owner_1(c text, given float8) RETURNS float8 LANGUAGE plpgsql AS $$
    DECLARE
      v record;
      now float8 := rivulet.now_ms_1(given);
    BEGIN
      SELECT until, ttl INTO v FROM rivulet.conversations WHERE conv = c AND held;
      IF NOT FOUND THEN RETURN 0; END IF;
      IF v.until > now + v.ttl THEN
        PERFORM rivulet.shorten_1(ARRAY[c], given);
        RETURN v.ttl;
      END IF;
      RETURN v.until - now;
    END
  $$;

  -- Shortens leases from before the clock was set back, as far as the end of the index shows them.
  CREATE FUNCTION rivulet.sweep_1(given float8) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
      late text[];
      now float8 := rivulet.now_ms_1(given);
    BEGIN
      SELECT array_agg(conv) INTO late FROM (
        SELECT conv, until, ttl, held FROM rivulet.conversations WHERE work ORDER BY due DESC LIMIT 100
      ) v WHERE held AND until > now + ttl;
      IF late IS NOT NULL THEN PERFORM rivulet.shorten_1(late, given); END IF;
    END
  $$;

  -- When the server started: leases that ended while it was down count from then, so that their owners renew them first.
  CREATE FUNCTION rivulet.boot_ms_1(given float8) RETURNS float8 LANGUAGE sql AS $$
    SELECT CASE WHEN given IS NULL THEN extract(epoch FROM pg_postmaster_start_time())::float8 * 1000
      ELSE '-infinity' END
  $$;

  CREATE FUNCTION rivulet.expired_1(most bigint, given float8) RETURNS SETOF text LANGUAGE plpgsql AS $$
    DECLARE
      now float8;
      boot float8 := rivulet.boot_ms_1(given);
    BEGIN
      PERFORM rivulet.sweep_1(given);
      now := rivulet.now_ms_1(given);
      RETURN QUERY SELECT conv FROM rivulet.conversations
        WHERE work AND due <= now AND (NOT held OR boot + ttl <= now) ORDER BY due, conv LIMIT most;
    END
  $$;

  -- Takes conversations without a live owner that one of the given runs fits, those that wait longest first.
  CREATE FUNCTION rivulet.claim_1(by text, ms float8, most int, max_losses float8, agents text[], versions text[],
    places text[], token bigint, given float8)
  RETURNS TABLE (claimed text, new_fence bigint, new_losses int) LANGUAGE plpgsql AS $$
    DECLARE
      now float8;
      boot float8 := rivulet.boot_ms_1(given);
    BEGIN
      PERFORM rivulet.sweep_1(given);
      now := rivulet.now_ms_1(given);
      RETURN QUERY
        WITH free AS MATERIALIZED (
          SELECT v.conv, row_number() OVER (ORDER BY p.priority DESC, v.due, v.conv) AS place
          FROM unnest(agents, versions, places) AS g(agent, version, place)
            CROSS JOIN (VALUES (1), (0), (-1)) AS p(priority)
            CROSS JOIN LATERAL (
              SELECT c.conv, c.due FROM rivulet.conversations c
              WHERE c.work AND c.agent = g.agent AND c.version = g.version AND c.place = g.place
                AND c.priority = p.priority AND c.due <= now AND c.losses + c.held::int <= max_losses
                AND (NOT c.held OR boot + c.ttl <= now)
              ORDER BY c.due, c.conv LIMIT most
              FOR UPDATE SKIP LOCKED
            ) v
          ORDER BY place LIMIT most
        ), taken AS (
          UPDATE rivulet.conversations v SET fence = nextval('rivulet.fences'), held = true, owner = by,
            until = now + ms, ttl = ms, losses = v.losses + v.held::int,
            due = now + ms * (1 + v.losses + v.held::int), step = token
          FROM free WHERE v.conv = free.conv
          RETURNING v.conv, v.fence, v.losses, free.place
        )
        SELECT t.conv, t.fence, t.losses FROM taken t ORDER BY t.place;
    END
  $$;
`;

/** What version 2 adds. */
export const limitedClaims = `
  -- Takes conversations without a live owner that one of the given runs fits, those that wait longest first. With a
  -- limit per user one process claims at a time, so that two cannot exceed it together.
  CREATE FUNCTION rivulet.claim_2(by text, ms float8, most int, max_losses float8, per_user bigint, agents text[], versions text[],
    places text[], token bigint, given float8)
  RETURNS TABLE (claimed text, new_fence bigint, new_losses int) LANGUAGE plpgsql AS $$
    DECLARE
      now float8;
      boot float8 := rivulet.boot_ms_1(given);
      saturated text[] := '{}';
    BEGIN
      IF per_user IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('rivulet.claim', 0));
        saturated := ARRAY(SELECT user_id FROM rivulet.conversations
          WHERE held AND user_id IS NOT NULL AND until > (SELECT rivulet.now_ms_1(given))
          GROUP BY user_id HAVING count(*) >= per_user);
      END IF;
      PERFORM rivulet.sweep_1(given);
      now := rivulet.now_ms_1(given);
      RETURN QUERY
        WITH free AS MATERIALIZED (
          SELECT v.conv, v.user_id, row_number() OVER (ORDER BY p.priority DESC, v.due, v.conv) AS place
          FROM unnest(agents, versions, places) AS g(agent, version, place)
            CROSS JOIN (VALUES (1), (0), (-1)) AS p(priority)
            CROSS JOIN LATERAL (
              SELECT c.conv, c.due, c.user_id FROM rivulet.conversations c
              WHERE c.work AND c.agent = g.agent AND c.version = g.version AND c.place = g.place
                AND c.priority = p.priority AND c.due <= now AND c.losses + c.held::int <= max_losses
                AND (NOT c.held OR boot + c.ttl <= now)
                AND (c.user_id IS NULL OR NOT c.user_id = ANY (saturated))
              ORDER BY c.due, c.conv LIMIT most
              FOR UPDATE SKIP LOCKED
            ) v
          ORDER BY place LIMIT most
        ), allowed AS (
          SELECT n.conv, n.place FROM (
            SELECT free.*, row_number() OVER (PARTITION BY user_id ORDER BY place) AS nth FROM free
          ) n
          WHERE per_user IS NULL OR n.user_id IS NULL OR n.nth + (
            SELECT count(*) FROM rivulet.conversations o
            WHERE o.held AND o.user_id = n.user_id AND o.until > now) <= per_user
        ), taken AS (
          UPDATE rivulet.conversations v SET fence = nextval('rivulet.fences'), held = true, owner = by,
            until = now + ms, ttl = ms, losses = v.losses + v.held::int,
            due = now + ms * (1 + v.losses + v.held::int), step = token
          FROM allowed WHERE v.conv = allowed.conv
          RETURNING v.conv, v.fence, v.losses, allowed.place
        )
        SELECT t.conv, t.fence, t.losses FROM taken t ORDER BY t.place;
    END
  $$;
`;
