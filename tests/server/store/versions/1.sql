-- Rows as version 1 wrote them: one user, one session with two entries, a turn and their words.
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
