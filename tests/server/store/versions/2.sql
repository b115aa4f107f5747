-- Rows as version 2 wrote them: those of version 1, and a task whose slot is under way.
INSERT INTO settings (key, value) VALUES ('store.pepper', 'e836813be1b0c586');
INSERT INTO users (number, id, name, role, created_at, sessions_held, sessions_made, body)
    VALUES (1, 'user_anna', 'Anna', 'owner', '2026-01-31T00:00:00.000Z', 1, 1, x'7b7d');
INSERT INTO sessions (number, id, owner, intent, status, created_at, updated_at, is_pinned, head, stream_sequence,
    next_entry, projected_sequence, body)
    VALUES (16777217, 'sess_old', 'user_anna', 'Mend the build', 'completed', '2026-01-31T00:00:00.000Z',
    '2026-01-31T00:00:01.000Z', 1, 'entry_0', 2, 1, 2, x'7b7d');
INSERT INTO log (session, seq, at, kind, data) VALUES
    (16777217, 1, '2026-01-31T00:00:00.000Z', 'noted', '{"text":"kept"}'),
    (16777217, 2, '2026-01-31T00:00:01.000Z', 'noted', '{"text":"数据"}');
INSERT INTO turns (place, session, id, turn_id, parent_id, patch_sequence, body)
    VALUES (17592187092992, 16777217, 'entry_0', 'turn_0', NULL, 1, x'7b7d');
INSERT INTO intent_words (rowid, words) VALUES (16777217, 'Mend the build');
INSERT INTO turn_words (rowid, words) VALUES (17592187092992, 'kept  数  据 ');
INSERT INTO scheduled_tasks (id, owner, title, prompt, cron, timezone, enabled, skip_confirmations, created_at, body)
    VALUES ('task_old', 'user_anna', 'Report', 'Write it', '0 9 * * *', 'UTC', 1, 0, '2026-01-31T00:00:00.000Z', x'7b7d');
INSERT INTO scheduled_runs (id, task_id, fire_at, session_id, status, triggered_at)
    VALUES ('trun_old', 'task_old', '2026-01-31T09:00:00.000Z', 'sess_old', 'running', '2026-01-31T09:00:00.100Z');
