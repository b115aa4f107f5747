CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL);
CREATE TABLE session (
  id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL,
  title text NOT NULL, version text NOT NULL, share_url text, summary_additions integer, summary_deletions integer,
  summary_files integer, summary_diffs text, revert text, permission text, time_created integer NOT NULL,
  time_updated integer NOT NULL, time_compacting integer, time_archived integer
);
CREATE TABLE message (
  id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE TABLE part (
  id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL
);
CREATE INDEX part_message_idx ON part (message_id);
INSERT INTO project VALUES ('9f2c41d0', '/srv/shop');
INSERT INTO session VALUES ('ses_4c2000000ffeAaAaAaAaAaAaAa', '9f2c41d0', NULL, 'quiet-river', '/srv/shop', 'Fix the basket total', '1.18.33', 'https://example.test/s/abc', 1, 1, 1, NULL, '{"messageID": "msg_b70000000003001AbCdEfGhIjKlMn"}', NULL, 1767225600000, 1767225690000, NULL, NULL);
INSERT INTO session VALUES ('ses_4c1000100ffeKidKidKidKidKi', '9f2c41d0', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 'quiet-river', '/srv/shop', 'Look (@explore subagent)', '1.18.33', NULL, 1, 1, 1, NULL, NULL, NULL, 1767225600000, 1767225690000, NULL, NULL);
INSERT INTO session VALUES ('ses_4c2000100ffeBbBbBbBbBbBbBb', '9f2c41d0', NULL, 'quiet-river', '/srv/shop', 'Another one', '1.18.33', NULL, 1, 1, 1, NULL, NULL, NULL, 1767225600000, 1767225690000, NULL, NULL);
-- Ids that do not sort in the order of time: an imported session. OpenCode reads by time.
INSERT INTO message VALUES ('msg_zz', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"role": "user", "time": {"created": 1767225601000}, "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}}');
INSERT INTO part VALUES ('prt_b', 'msg_zz', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type": "text", "text": "First prompt."}');
INSERT INTO message VALUES ('msg_aa', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600001, 1767225600000, '{"role": "assistant", "time": {"created": 1767225602000, "completed": 1767225602900}, "parentID": "msg_b70000000001001AbCdEfGhIjKlMn", "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "mode": "build", "agent": "build", "path": {"cwd": "/srv/shop", "root": "/srv/shop"}, "cost": 0.0042, "tokens": {"input": 12, "output": 34, "reasoning": 0, "cache": {"read": 1000, "write": 200}}, "finish": "stop"}');
INSERT INTO part VALUES ('prt_c', 'msg_aa', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type": "tool", "callID": "toolu_0003", "tool": "task", "state": {"status": "completed", "input": {"description": "Look", "prompt": "Look around.", "subagent_type": "explore"}, "output": "Nothing.", "title": "", "metadata": {"sessionID": "ses_4c1000100ffeKidKidKidKidKi"}, "time": {"start": 1767225600300, "end": 1767225600340}}}');
INSERT INTO part VALUES ('prt_d', 'msg_aa', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type": "text", "text": "Done."}');
INSERT INTO message VALUES ('msg_b70000000003001AbCdEfGhIjKlMn', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225603000, 1767225603000, '{"role": "user", "time": {"created": 1767225603000}, "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}}');
INSERT INTO part VALUES ('prt_b70000000004001AbCdEfGhIjKlMn', 'msg_b70000000003001AbCdEfGhIjKlMn', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type": "text", "text": "A prompt that was taken back."}');
INSERT INTO message VALUES ('msg_b70000000004001AbCdEfGhIjKlMn', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225604000, 1767225604000, '{"role": "assistant", "time": {"created": 1767225604000, "completed": 1767225604900}, "parentID": "msg_b70000000003001AbCdEfGhIjKlMn", "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "mode": "build", "agent": "build", "path": {"cwd": "/srv/shop", "root": "/srv/shop"}, "cost": 0.0042, "tokens": {"input": 12, "output": 34, "reasoning": 0, "cache": {"read": 1000, "write": 200}}, "finish": "stop"}');
INSERT INTO part VALUES ('prt_b70000000005001AbCdEfGhIjKlMn', 'msg_b70000000004001AbCdEfGhIjKlMn', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type": "text", "text": "An answer that was taken back."}');
INSERT INTO message VALUES ('msg_b70000000005001AbCdEfGhIjKlMn', 'ses_4c1000100ffeKidKidKidKidKi', 1767225605000, 1767225605000, '{"role": "user", "time": {"created": 1767225605000}, "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}}');
INSERT INTO part VALUES ('prt_b70000000006001AbCdEfGhIjKlMn', 'msg_b70000000005001AbCdEfGhIjKlMn', 'ses_4c1000100ffeKidKidKidKidKi', 1767225600000, 1767225600000, '{"type": "text", "text": "Look around."}');
INSERT INTO message VALUES ('msg_b70000000006001AbCdEfGhIjKlMn', 'ses_4c1000100ffeKidKidKidKidKi', 1767225606000, 1767225606000, '{"role": "assistant", "time": {"created": 1767225606000, "completed": 1767225606900}, "parentID": "msg_b70000000005001AbCdEfGhIjKlMn", "modelID": "claude-sonnet-4-5", "providerID": "anthropic", "mode": "build", "agent": "build", "path": {"cwd": "/srv/shop", "root": "/srv/shop"}, "cost": 0.0042, "tokens": {"input": 12, "output": 34, "reasoning": 0, "cache": {"read": 1000, "write": 200}}, "finish": "stop"}');
INSERT INTO part VALUES ('prt_b70000000007001AbCdEfGhIjKlMn', 'msg_b70000000006001AbCdEfGhIjKlMn', 'ses_4c1000100ffeKidKidKidKidKi', 1767225600000, 1767225600000, '{"type": "text", "text": "Nothing."}');
INSERT INTO message VALUES ('msg_b70000000007001AbCdEfGhIjKlMn', 'ses_4c2000100ffeBbBbBbBbBbBbBb', 1767225607000, 1767225607000, '{"role": "user", "time": {"created": 1767225607000}, "agent": "build", "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}}');
INSERT INTO part VALUES ('prt_b70000000008001AbCdEfGhIjKlMn', 'msg_b70000000007001AbCdEfGhIjKlMn', 'ses_4c2000100ffeBbBbBbBbBbBbBb', 1767225600000, 1767225600000, '{"type": "text", "text": "In another session."}');
INSERT INTO part VALUES ('prt_orphan', 'msg_gone', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type":"text","text":"x"}');
INSERT INTO part VALUES ('prt_e', 'msg_aa', 'ses_4c2000000ffeAaAaAaAaAaAaAa', 1767225600000, 1767225600000, '{"type":');
