-- One statement, and one at a time: else two programs that start together meet in the catalogue.
DO $install$
BEGIN
    PERFORM pg_advisory_xact_lock(7310584034012394803);

    CREATE TABLE IF NOT EXISTS redlock_fence (
        resource text PRIMARY KEY,
        token bigint NOT NULL
    );

    CREATE OR REPLACE FUNCTION redlock_guard(resource text, token bigint) RETURNS void
    LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    BEGIN
        INSERT INTO redlock_fence AS f (resource, token)
        VALUES (redlock_guard.resource, redlock_guard.token)
        ON CONFLICT (resource) DO UPDATE SET token = EXCLUDED.token
        WHERE f.token <= EXCLUDED.token;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'stale fencing token % for %', redlock_guard.token, redlock_guard.resource
            USING ERRCODE = 'RL001';
        END IF;
    END
    $$;
END
$install$;
