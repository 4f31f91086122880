-- The rows of an approval gateway. What a row is called is in no text column and in
-- no index as it is: names are any bytes, of any length.

CREATE TABLE countersign.store (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version integer NOT NULL, -- of this schema: the last of these files that was run
	history text    NOT NULL  -- of the server and the tables, to tell a copy
);

CREATE TABLE countersign.rows (
	name  bytea  PRIMARY KEY, -- digest of kind and id
	place bytea  NOT NULL,    -- digest of kind and key
	made  bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
	kind  bytea  NOT NULL,
	id    bytea  NOT NULL,
	key   bytea  NOT NULL,
	rev   bigint NOT NULL,
	body  bytea  NOT NULL,
	sum   bytea  NOT NULL     -- digest of kind, id, key, rev and body
);

CREATE INDEX rows_by_place ON countersign.rows (place, made);

CREATE TABLE countersign.counters (
	name  bytea  PRIMARY KEY, -- digest of label
	label bytea  NOT NULL,
	value bigint NOT NULL,
	sum   bytea  NOT NULL
);
