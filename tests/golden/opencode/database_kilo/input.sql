-- Kilo Code 7: the tables of OpenCode and its own, with indexes over JSON that an older SQLite trusts only when told to.
CREATE TABLE session (
  id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL,
  title text NOT NULL, version text NOT NULL, permission text, time_created integer NOT NULL, time_updated integer NOT NULL
);
CREATE TABLE message (
  id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE part (
  id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL, time_created integer NOT NULL, data text NOT NULL);
CREATE TABLE kilo_board (root_session_id text PRIMARY KEY, objective text NOT NULL);
CREATE INDEX recall_message_role_idx ON message (id, json_extract("data", '$.role'));
CREATE INDEX part_session_step_finish_idx ON part (session_id) WHERE json_extract("data", '$.type') = 'step-finish';
CREATE INDEX recall_part_search_idx ON part (id, CASE WHEN json_extract("data", '$.url') NOT LIKE 'data:%' THEN trim(coalesce(json_extract("data", '$.filename'), '')) ELSE '' END);
INSERT INTO session VALUES ('ses_4c3000000ffeAaAaAaAaAaAaAa', 'global', NULL, 'nimble-moon', '/srv/pier', 'Which boat is late', '7.7.9', NULL, 1767225600000, 1767225612000);
INSERT INTO message VALUES ('msg_c10000000001001AbCdEfGhIjKlMn', 'ses_4c3000000ffeAaAaAaAaAaAaAa', 1767225601000, 1767225601000, '{"role": "user", "time": {"created": 1767225601000}, "agent": "code", "model": {"providerID": "kilo", "modelID": "some-model"}}');
INSERT INTO part VALUES ('prt_c10000000001002AbCdEfGhIjKlMn', 'msg_c10000000001001AbCdEfGhIjKlMn', 'ses_4c3000000ffeAaAaAaAaAaAaAa', 1767225601000, 1767225601000, '{"type": "text", "text": "Which boat is late?"}');
INSERT INTO message VALUES ('msg_c10000000002001AbCdEfGhIjKlMn', 'ses_4c3000000ffeAaAaAaAaAaAaAa', 1767225602000, 1767225609000, '{"role": "assistant", "time": {"created": 1767225602000, "completed": 1767225609000}, "parentID": "msg_c10000000001001AbCdEfGhIjKlMn", "modelID": "some-model", "providerID": "kilo", "mode": "code", "agent": "code", "path": {"cwd": "/srv/pier", "root": "/"}, "cost": 0, "tokens": {"total": 70, "input": 10, "output": 20, "reasoning": 0, "cache": {"read": 40, "write": 0}}, "finish": "tool-calls"}');
INSERT INTO part VALUES ('prt_c10000000002002AbCdEfGhIjKlMn', 'msg_c10000000002001AbCdEfGhIjKlMn', 'ses_4c3000000ffeAaAaAaAaAaAaAa', 1767225603000, 1767225603000, '{"type": "tool", "callID": "call_1", "tool": "invalid", "state": {"status": "completed", "input": {"tool": "boats", "error": "Model tried to call unavailable tool ''boats''."}, "output": "The arguments provided to the tool are invalid: Model tried to call unavailable tool ''boats''.", "title": "Invalid Tool", "metadata": {"truncated": false}, "time": {"start": 1767225603000, "end": 1767225603010}}}');
INSERT INTO part VALUES ('prt_c10000000002003AbCdEfGhIjKlMn', 'msg_c10000000002001AbCdEfGhIjKlMn', 'ses_4c3000000ffeAaAaAaAaAaAaAa', 1767225608000, 1767225608000, '{"type": "text", "text": "The one from the island.", "time": {"start": 1767225608000, "end": 1767225608500}}');
INSERT INTO part VALUES ('prt_c10000000002004AbCdEfGhIjKlMn', 'msg_c10000000002001AbCdEfGhIjKlMn', 'ses_4c3000000ffeAaAaAaAaAaAaAa', 1767225609000, 1767225609000, '{"type": "step-finish", "reason": "stop", "cost": 0, "tokens": {"total": 70, "input": 10, "output": 20, "reasoning": 0, "cache": {"read": 40, "write": 0}}}');
