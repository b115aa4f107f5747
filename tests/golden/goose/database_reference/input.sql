CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE sessions (
  id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '', user_set_name BOOLEAN DEFAULT FALSE,
  session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP,
  extension_data TEXT DEFAULT '{}', total_tokens INTEGER, input_tokens INTEGER, output_tokens INTEGER, accumulated_cost REAL,
  schedule_id TEXT, recipe_json TEXT, provider_name TEXT, model_config_json TEXT, goose_mode TEXT NOT NULL DEFAULT 'auto',
  parent_session_id TEXT, parent_delegation TEXT
);
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP, tokens INTEGER, metadata_json TEXT
);
CREATE TABLE usage_ledger (id INTEGER PRIMARY KEY, session_id TEXT NOT NULL, model TEXT, input_tokens INTEGER, output_tokens INTEGER, cost REAL);
INSERT INTO usage_ledger (session_id, model, input_tokens, output_tokens, cost) VALUES ('20260101_1', 'claude-sonnet-4-5', 300, 60, 0.01), ('20260101_1', 'claude-sonnet-4-5', 300, 40, 0.01);
INSERT INTO schema_version (version, applied_at) VALUES (17, '2026-01-01 00:00:00');
INSERT INTO sessions (id, name, working_dir, created_at, updated_at, provider_name, model_config_json, total_tokens, input_tokens, output_tokens) VALUES ('20260101_1', 'Sum the basket', '/srv/shop', '2026-01-01 00:00:00', '2026-01-01 01:00:00', 'anthropic', '{"model_name":"claude-sonnet-4-5"}', 700, 600, 100);
INSERT INTO sessions (id, name, working_dir, created_at, updated_at, provider_name, model_config_json, session_type, parent_session_id, parent_delegation) VALUES ('20260101_2', 'Look for tests', '/srv/shop', '2026-01-01 00:00:00', '2026-01-01 01:00:00', 'anthropic', '{"model_name":"claude-sonnet-4-5"}', 'sub_agent', '20260101_1', '{"execution_mode": "foreground", "parent_delegate_message_id": "msg_2", "result_delivered_to_parent": true}');
INSERT INTO sessions (id, name, working_dir, created_at, updated_at, provider_name, model_config_json, session_type, parent_session_id) VALUES ('20260101_3', 'Look for docs', '/srv/shop', '2026-01-01 00:00:00', '2026-01-01 01:00:00', 'anthropic', '{"model_name":"claude-sonnet-4-5"}', 'sub_agent', '20260101_1');
INSERT INTO sessions (id, name, working_dir, created_at, updated_at, provider_name, model_config_json) VALUES ('20260101_4', 'Another talk', '/srv/shop', '2026-01-01 00:00:00', '2026-01-01 01:00:00', 'anthropic', '{"model_name":"claude-sonnet-4-5"}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_1', '20260101_1', 'user', '[{"type": "text", "text": "Sum the basket."}]', 1767225601000, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_2', '20260101_1', 'assistant', '[{"type": "text", "text": "I delegate."}, {"type": "toolRequest", "id": "call_1", "toolCall": {"status": "success", "value": {"name": "delegate", "arguments": {"instructions": "Look for tests"}}}}]', 1767225602000, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_9', '20260101_4', 'user', '[{"type": "text", "text": "Something else."}]', 1767225609, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_3', '20260101_1', 'user', '[{"type": "toolResponse", "id": "call_1", "toolResult": {"status": "success", "value": {"content": [{"type": "text", "text": "tests/test_basket.py"}]}}}]', 1767225603000, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_4', '20260101_1', 'assistant', '[{"type": "text", "text": "Done."}]', 1767225604000, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_x', '20260101_1', 'user', '{broken', 1767225605000, NULL);
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_5', '20260101_2', 'user', '[{"type": "text", "text": "Look for tests"}]', 1767225605, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_6', '20260101_2', 'assistant', '[{"type": "text", "text": "tests/test_basket.py"}]', 1767225606, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_7', '20260101_3', 'user', '[{"type": "text", "text": "Look for docs"}]', 1767225607, '{"userVisible": true, "agentVisible": true}');
INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('msg_8', '20260101_3', 'assistant', '[{"type": "text", "text": "None."}]', 1767225608, '{"userVisible": true, "agentVisible": true}');
