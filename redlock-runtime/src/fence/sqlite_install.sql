CREATE TABLE IF NOT EXISTS redlock_fence (
    resource TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer')
);

CREATE TRIGGER IF NOT EXISTS redlock_guard
BEFORE UPDATE ON redlock_fence WHEN NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'stale fencing token');
END;
