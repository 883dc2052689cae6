// The tables of the dialogs, from one version to the next.
#include "services/sessions/history.h"

namespace tutti::sessions {

const store::Migration kHistoryTables = {
    R"(CREATE TABLE dialog(
         id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, project TEXT NOT NULL, session TEXT NOT NULL,
         version INTEGER NOT NULL DEFAULT 0, turns INTEGER NOT NULL DEFAULT 0,
         first_turn INTEGER NOT NULL DEFAULT 1, system_prompt TEXT NOT NULL DEFAULT '',
         used_s INTEGER NOT NULL, UNIQUE(tenant, project, session));
       CREATE INDEX dialog_used ON dialog(used_s);
       CREATE TABLE item(
         dialog INTEGER NOT NULL REFERENCES dialog(id) ON DELETE CASCADE, turn INTEGER NOT NULL,
         seq INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, tokens INTEGER NOT NULL,
         incomplete INTEGER NOT NULL, PRIMARY KEY(dialog, turn, seq)) WITHOUT ROWID;
       CREATE TABLE turn(
         dialog INTEGER NOT NULL REFERENCES dialog(id) ON DELETE CASCADE, turn INTEGER NOT NULL,
         message_id TEXT NOT NULL, request TEXT NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
         error TEXT NOT NULL DEFAULT '', PRIMARY KEY(dialog, turn), UNIQUE(dialog, message_id))
         WITHOUT ROWID)",
    "DROP TABLE turn; DROP TABLE item; DROP TABLE dialog"};

// Before this migration, a turn's place was its number. Triggers maintain the dialogs' totals,
// which are read at each turn's end. Migrating back copies shared items into each fork.
const store::Migration kBranchTables = {
    R"(ALTER TABLE dialog RENAME COLUMN first_turn TO first_place;
       ALTER TABLE dialog ADD COLUMN parent INTEGER;
       ALTER TABLE dialog ADD COLUMN parent_place INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE dialog ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE dialog ADD COLUMN created_s INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE dialog ADD COLUMN metadata TEXT NOT NULL DEFAULT '';
       ALTER TABLE dialog ADD COLUMN items INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE dialog ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE item ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
       ALTER TABLE item ADD COLUMN item_id TEXT NOT NULL DEFAULT '';
       ALTER TABLE turn ADD COLUMN response_id TEXT NOT NULL DEFAULT '';
       UPDATE dialog SET created_s=used_s;
       UPDATE item SET place=turn;
       UPDATE dialog SET
         items=(SELECT count(*) FROM item WHERE dialog=dialog.id),
         bytes=(SELECT coalesce(sum(length(CAST(content AS BLOB))), 0) FROM item
                WHERE dialog=dialog.id);
       CREATE TRIGGER item_added AFTER INSERT ON item BEGIN
         UPDATE dialog SET items=items+1, bytes=bytes+length(CAST(new.content AS BLOB))
           WHERE id=new.dialog;
       END;
       CREATE TRIGGER item_dropped AFTER DELETE ON item BEGIN
         UPDATE dialog SET items=items-1, bytes=bytes-length(CAST(old.content AS BLOB))
           WHERE id=old.dialog;
       END;
       CREATE TRIGGER item_moved AFTER UPDATE OF dialog ON item BEGIN
         UPDATE dialog SET items=items-1, bytes=bytes-length(CAST(old.content AS BLOB))
           WHERE id=old.dialog;
         UPDATE dialog SET items=items+1, bytes=bytes+length(CAST(new.content AS BLOB))
           WHERE id=new.dialog;
       END;
       CREATE INDEX dialog_parent ON dialog(parent) WHERE parent IS NOT NULL;
       CREATE INDEX dialog_of ON dialog(tenant, used_s);
       CREATE INDEX item_place ON item(dialog, place);
       CREATE INDEX turn_pending ON turn(dialog) WHERE ended=0;
       CREATE TABLE profile(
         tenant TEXT NOT NULL, project TEXT NOT NULL, version INTEGER NOT NULL,
         system_prompt TEXT NOT NULL, PRIMARY KEY(tenant, project)) WITHOUT ROWID)",
    R"(INSERT OR IGNORE INTO item
         WITH RECURSIVE line(child, id, most) AS (
           SELECT id, parent, parent_place FROM dialog WHERE parent IS NOT NULL
           UNION ALL
           SELECT line.child, d.parent, min(line.most, d.parent_place)
             FROM line JOIN dialog d ON d.id=line.id WHERE d.parent IS NOT NULL)
         SELECT line.child, i.turn, i.seq, i.role, i.content, i.tokens, i.incomplete, i.place,
                i.item_id
           FROM line JOIN item i ON i.dialog=line.id AND i.place<=line.most;
       DROP TABLE profile;
       DROP TRIGGER item_added;
       DROP TRIGGER item_dropped;
       DROP TRIGGER item_moved;
       DROP INDEX turn_pending;
       DROP INDEX item_place;
       DROP INDEX dialog_of;
       DROP INDEX dialog_parent;
       DELETE FROM dialog WHERE hidden=1;
       ALTER TABLE turn DROP COLUMN response_id;
       ALTER TABLE item DROP COLUMN item_id;
       ALTER TABLE item DROP COLUMN place;
       ALTER TABLE dialog DROP COLUMN bytes;
       ALTER TABLE dialog DROP COLUMN items;
       ALTER TABLE dialog DROP COLUMN metadata;
       ALTER TABLE dialog DROP COLUMN created_s;
       ALTER TABLE dialog DROP COLUMN hidden;
       ALTER TABLE dialog DROP COLUMN parent_place;
       ALTER TABLE dialog DROP COLUMN parent;
       ALTER TABLE dialog RENAME COLUMN first_place TO first_turn)"};

}  // namespace tutti::sessions
