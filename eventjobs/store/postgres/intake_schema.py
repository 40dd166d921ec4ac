"""What lets producers enqueue within transactions of their own: the tables of the intake, and the functions in SQL.

The functions check what POST /jobs checks, by the bounds of domain/limits.py and the policies of domain/retry.py, so
that what is wrong fails in the producer's transaction. specs/postgres.md says what each table is.
"""

from __future__ import annotations

import json

from eventjobs.domain.limits import (
    ACTOR_LENGTH_MAX,
    CONTENT_BYTES_MAX,
    DELAY_SECONDS_MAX,
    IDEMPOTENCY_KEY_LENGTH_MAX,
    JSON_DEPTH_MAX,
    MAX_ATTEMPTS_DEFAULT,
    MAX_ATTEMPTS_MAX,
    MAX_ATTEMPTS_MIN,
    NAME_LENGTH_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_MIN,
    QUEUE_DEFAULT,
    RETRY_DELAY_SECONDS_MAX,
)
from eventjobs.domain.retry import DEFAULT_POLICY, RetryPolicy
from eventjobs.store.postgres.listener import CHANNEL
from eventjobs.store.postgres.locks import INTAKE_LOCK, LOCK_SPACE

TABLES = """
CREATE TABLE eventjobs.intake (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id uuid NOT NULL,
    held boolean NOT NULL,
    key bytea UNIQUE,
    request jsonb NOT NULL,
    payload bytea,
    actor text NOT NULL,
    asked_at bigint NOT NULL
) WITH (
    autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0
);
CREATE TABLE eventjobs.not_enqueued (
    number bigint PRIMARY KEY,
    id uuid NOT NULL,
    code text NOT NULL,
    reason text NOT NULL,
    job_id uuid,
    request jsonb NOT NULL,
    payload bytea,
    actor text NOT NULL,
    asked_at bigint NOT NULL,
    decided_at bigint NOT NULL
);
"""

_VALUES = r"""
CREATE OR REPLACE FUNCTION eventjobs.new_job_id() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(
        uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6
    ), 52, 1), 53, 1), 'hex')::uuid
$$;
CREATE OR REPLACE FUNCTION eventjobs.without_strings(value text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT regexp_replace(value, '"[^"\\]*(?:\\.[^"\\]*)*"', '', 'g')
$$;
CREATE OR REPLACE FUNCTION eventjobs.nested_deeper(value text, levels integer) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    brackets text;
BEGIN
    IF octet_length(value) <= 2 * levels THEN
        RETURN false;
    END IF;
    brackets := regexp_replace(eventjobs.without_strings(value), '[^][{}]+', '', 'g');
    brackets := translate(brackets, '{}', '[]');
    FOR level IN 1 .. levels LOOP
        EXIT WHEN brackets = '';
        brackets := replace(brackets, '[]', '');
    END LOOP;
    RETURN brackets <> '';
END $$;
CREATE OR REPLACE FUNCTION eventjobs.has_lone_surrogate(value text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT strpos(lower(value), '\ud') > 0 AND regexp_replace(
        regexp_replace(value, '\\[^u]', '', 'g'), '\\u[dD][89abAB]..\\u[dD][c-fC-F]..', '', 'g'
    ) ~ '\\u[dD][89a-fA-F]'
$$;
CREATE OR REPLACE FUNCTION eventjobs.same_payload(one bytea, other bytea) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT one IS NOT DISTINCT FROM other OR coalesce(
        regexp_replace(convert_from(one, 'UTF8'), '("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', '\1', 'g')
        = regexp_replace(convert_from(other, 'UTF8'), '("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', '\1', 'g'), false)
$$;
CREATE OR REPLACE FUNCTION eventjobs.policy_faults(policy jsonb) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    defaults jsonb := '{policies}'::jsonb -> lower(policy ->> 'type');
    faults text[] := '{}';
    field record;
BEGIN
    IF jsonb_typeof(policy) <> 'object' THEN
        RETURN ARRAY['retry_policy must be an object {type, ...}'];
    ELSIF jsonb_typeof(policy -> 'type') IS DISTINCT FROM 'string' OR defaults IS NULL THEN
        RETURN ARRAY['retry_policy.type must be one of {policy_names}'];
    END IF;
    FOR field IN SELECT f.key, f.value FROM jsonb_each(jsonb_strip_nulls(policy) - 'type') AS f LOOP
        IF NOT defaults ? field.key THEN
            faults := faults || format('retry_policy.%s is no field of this object', left(field.key, 64));
        ELSIF jsonb_typeof(field.value) <> 'number' THEN
            faults := faults || format('retry_policy.%s must be a number', field.key);
        ELSIF field.value::numeric NOT BETWEEN 0 AND (CASE field.key WHEN 'jitter' THEN 1 ELSE {policy_max} END) THEN
            faults := faults || format('retry_policy.%s must be between 0 and %s',
                field.key, CASE field.key WHEN 'jitter' THEN 1 ELSE {policy_max} END);
        END IF;
    END LOOP;
    policy := defaults || jsonb_strip_nulls(policy);
    IF faults = '{}' AND policy ? 'max_delay' AND (policy -> 'base')::numeric > (policy -> 'max_delay')::numeric THEN
        faults := ARRAY['retry_policy.base must not be above max_delay'];
    END IF;
    RETURN faults;
END $$;
"""
"""Of values: a new UUID of version 7; whether a JSON text is nested too deep, or names half a character; whether two
payloads are the same but for insignificant space; and what is wrong with a retry policy."""

_REQUESTS = r"""
CREATE OR REPLACE FUNCTION eventjobs.held_key(digest bytea) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
        SELECT convert_from(substring(k.value FROM 5), 'UTF8')::uuid
        FROM eventjobs.projection_idempotency_keys k WHERE k.key = digest
    );
END $$;
CREATE OR REPLACE FUNCTION eventjobs.ask(
    new_id uuid, digest bytea, request jsonb, payload bytea, actor text
) RETURNS uuid LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    holder uuid;
    mine bigint;
    earlier record;
BEGIN
    PERFORM pg_current_xact_id();  -- before a number is drawn: coordinators rely on it, see intake.py
    LOOP
        holder := CASE WHEN digest IS NOT NULL THEN eventjobs.held_key(digest) END;
        INSERT INTO eventjobs.intake AS i (id, held, key, request, payload, actor, asked_at)
        VALUES (
            coalesce(holder, new_id), holder IS NOT NULL, CASE WHEN holder IS NULL THEN digest END,
            ask.request, ask.payload, ask.actor, eventjobs.clock()
        ) ON CONFLICT (key) DO NOTHING RETURNING i.number INTO mine;
        IF mine IS NOT NULL THEN
            IF digest IS NOT NULL AND holder IS NULL THEN
                holder := eventjobs.held_key(digest);
                UPDATE eventjobs.intake AS i SET id = holder, held = true, key = NULL
                WHERE i.number = mine AND holder IS NOT NULL;
            END IF;
            RETURN coalesce(holder, new_id);
        END IF;
        SELECT i.id, i.request, i.payload INTO earlier FROM eventjobs.intake i WHERE i.key = digest;
        IF FOUND AND earlier.request = ask.request AND eventjobs.same_payload(earlier.payload, ask.payload) THEN
            RETURN earlier.id;
        ELSIF FOUND THEN
            RAISE EXCEPTION 'idempotency_key_reused: the key belongs to a job that was asked for differently'
            USING ERRCODE = 'unique_violation', DETAIL = format('The other request was given the id %s.', earlier.id);
        END IF;
    END LOOP;
END $$;
CREATE OR REPLACE FUNCTION eventjobs.enqueue(
    kind text, payload json DEFAULT NULL, queue text DEFAULT NULL, priority integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL, run_at timestamptz DEFAULT NULL, delay_seconds double precision DEFAULT NULL,
    retry_policy json DEFAULT NULL, idempotency_key text DEFAULT NULL, actor text DEFAULT NULL,
    wake boolean DEFAULT true
) RETURNS uuid LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET standard_conforming_strings = on AS $$
DECLARE
    name CONSTANT text := '^[A-Za-z0-9._:/@-]{1,{name_max}}$';
    names CONSTANT text := 'must be 1 to {name_max} ASCII letters, digits and . _ : / @ -';
    policy jsonb := coalesce(retry_policy::jsonb, '{policy_default}');
    value text := nullif(btrim(payload::text, E' \t\n\r'), 'null');
    content bytea := convert_to(value, 'UTF8');
    asked_key bytea := convert_to(idempotency_key, 'UTF8');
    faults text[] := '{}';
    id uuid;
BEGIN
    actor := coalesce(actor, session_user);
    queue := coalesce(queue, '{queue_default}');
    priority := coalesce(priority, {priority_default});
    max_attempts := coalesce(max_attempts, {attempts_default});
    faults := array_remove(ARRAY[
        CASE WHEN kind IS NULL THEN 'kind is required' WHEN kind COLLATE "C" !~ name THEN 'kind ' || names END,
        CASE WHEN octet_length(content) > {content_max}
            THEN format('payload has %s bytes; the limit is {content_max}', octet_length(content))
        WHEN eventjobs.nested_deeper(value, {depth_max}) THEN 'payload is nested deeper than {depth_max} levels'
        WHEN eventjobs.has_lone_surrogate(value) THEN 'payload has text that is no valid Unicode: a lone surrogate' END,
        CASE WHEN queue COLLATE "C" !~ name THEN 'queue ' || names END,
        CASE WHEN priority NOT BETWEEN {priority_min} AND {priority_max}
            THEN 'priority must be an integer from {priority_min} to {priority_max}' END,
        CASE WHEN max_attempts NOT BETWEEN {attempts_min} AND {attempts_max}
            THEN 'max_attempts must be an integer from {attempts_min} to {attempts_max}' END,
        CASE WHEN run_at < '0001-01-01 00:00:00+00' OR run_at >= '10000-01-01 00:00:00+00'
            THEN 'run_at must lie in the years 1 to 9999 (UTC)' END,
        CASE WHEN delay_seconds NOT BETWEEN 0 AND {delay_max}
            THEN 'delay_seconds must be a number of seconds from 0 to {delay_max}'
        WHEN run_at IS NOT NULL AND delay_seconds IS NOT NULL
            THEN 'delay_seconds cannot be given together with run_at' END,
        CASE WHEN char_length(idempotency_key) NOT BETWEEN 1 AND {key_max}
            OR idempotency_key ~ '[\u0001-\u001f\u007f-\u009f]'
            THEN 'idempotency_key must be 1 to {key_max} printable characters' END,
        CASE WHEN char_length(actor) NOT BETWEEN 1 AND {actor_max} OR actor COLLATE "C" ~ '[^ -~]'
            THEN 'actor must be 1 to {actor_max} printable ASCII characters' END
    ], NULL) || eventjobs.policy_faults(policy);
    IF cardinality(faults) > 0 THEN
        RAISE EXCEPTION 'invalid_request: %', array_to_string(faults, '; ') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    policy := jsonb_build_object('type', lower(policy ->> 'type'))
        || ('{policies}'::jsonb -> lower(policy ->> 'type')) || (jsonb_strip_nulls(policy) - 'type');
    id := eventjobs.ask(eventjobs.new_job_id(),
        sha256(convert_to(octet_length(asked_key) || ':', 'UTF8') || asked_key),
        jsonb_strip_nulls(jsonb_build_object(
            'kind', kind, 'queue', queue, 'priority', priority, 'max_attempts', max_attempts,
            'run_at', to_char(run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'delay_seconds', delay_seconds, 'retry_policy', policy, 'idempotency_key', idempotency_key
        )), content, actor);
    IF wake THEN
        PERFORM pg_notify('{channel}', '');
    END IF;
    RETURN id;
END $$;
CREATE OR REPLACE FUNCTION eventjobs.enqueue_request(
    request json, payload json DEFAULT NULL, actor text DEFAULT NULL, wake boolean DEFAULT true
) RETURNS uuid LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on AS $$
DECLARE
    shapes CONSTANT jsonb := '{shapes}';
    rfc_3339 CONSTANT text :=
        '^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$';
    faults text[];
BEGIN
    IF json_typeof(request) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'invalid_request: a job must be a JSON object' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(CASE
        WHEN NOT shapes ? f.key THEN format('%s is no field of this object', left(f.key, 64))
        ELSE format('%s must be %s', f.key, shapes -> f.key ->> 'words') END)
    INTO faults FROM json_each(request) AS f
    WHERE NOT shapes ? f.key OR (json_typeof(f.value) <> 'null' AND (
        json_typeof(f.value) <> (shapes -> f.key ->> 'type')
        OR (shapes -> f.key ? 'form' AND f.value #>> '{}' !~ (shapes -> f.key ->> 'form'))
        OR (f.key = 'run_at' AND f.value #>> '{}' !~ rfc_3339)));
    IF request ->> 'kind' <> request ->> 'job_type' THEN
        faults := faults || text 'job_type must equal kind, of which it is another name';
    END IF;
    IF faults IS NOT NULL THEN
        RAISE EXCEPTION 'invalid_request: %', array_to_string(faults, '; ') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN eventjobs.enqueue(
        coalesce(request ->> 'kind', request ->> 'job_type'), payload, request ->> 'queue',
        (request ->> 'priority')::integer, (request ->> 'max_attempts')::integer,
        regexp_replace(request ->> 'run_at', '(\.\d{6})\d+', '\1')::timestamptz,
        (request ->> 'delay_seconds')::double precision,
        CASE WHEN json_typeof(request -> 'retry_policy') <> 'null' THEN request -> 'retry_policy' END,
        request ->> 'idempotency_key', actor, wake);
END $$;
REVOKE ALL ON FUNCTION eventjobs.enqueue FROM PUBLIC;
REVOKE ALL ON FUNCTION eventjobs.enqueue_request FROM PUBLIC;
CREATE OR REPLACE FUNCTION eventjobs.lock_intake(numbers bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_try_advisory_xact_lock({lock_space}, {intake_lock}) THEN
        RETURN QUERY SELECT i.number FROM eventjobs.intake i
        WHERE i.number = ANY (numbers) ORDER BY i.number FOR UPDATE SKIP LOCKED;
    END IF;
END $$;
"""


def _filled(template: str) -> str:
    """The template with every {name} of _BOUNDS in its place; other braces stay as they are."""
    for name, value in _BOUNDS.items():
        template = template.replace("{" + name + "}", str(value))
    return template


def _document(policy: RetryPolicy) -> dict[str, object]:
    return {"type": policy.type, **policy.parameters()}


def _shapes() -> dict[str, dict[str, str]]:
    """What each member of a request has to be, as far as its JSON type goes. A payload comes beside it: to look into
    an object that holds it, PostgreSQL would have to be able to say all of it in text, and \\u0000 is none."""
    text, number = {"type": "string", "words": "a text"}, {"type": "number", "words": "a number"}
    whole = {"type": "number", "words": "an integer", "form": r"^-?\d{1,9}$"}
    moment = {"type": "string", "words": "an RFC 3339 time that names its offset, like 2026-01-31T08:00:00Z"}
    policy = {"type": "object", "words": "an object {type, ...}"}
    return {
        **dict.fromkeys(("kind", "job_type", "queue", "idempotency_key"), text),
        **dict.fromkeys(("priority", "max_attempts"), whole),
        "run_at": moment,
        "delay_seconds": number,
        "retry_policy": policy,
    }


_BOUNDS = {
    "policies": json.dumps({name: policy().parameters() for name, policy in RetryPolicy.registry.items()}),
    "policy_names": ", ".join(RetryPolicy.registry),
    "policy_max": RETRY_DELAY_SECONDS_MAX,
    "policy_default": json.dumps(_document(DEFAULT_POLICY)),
    "name_max": NAME_LENGTH_MAX,
    "key_max": IDEMPOTENCY_KEY_LENGTH_MAX,
    "actor_max": ACTOR_LENGTH_MAX,
    "content_max": CONTENT_BYTES_MAX,
    "depth_max": JSON_DEPTH_MAX,
    "queue_default": QUEUE_DEFAULT,
    "priority_default": PRIORITY_DEFAULT,
    "priority_min": PRIORITY_MIN,
    "priority_max": PRIORITY_MAX,
    "attempts_default": MAX_ATTEMPTS_DEFAULT,
    "attempts_min": MAX_ATTEMPTS_MIN,
    "attempts_max": MAX_ATTEMPTS_MAX,
    "delay_max": f"{DELAY_SECONDS_MAX:.15g}",
    "shapes": json.dumps(_shapes()),
    "channel": CHANNEL,
    "lock_space": LOCK_SPACE,
    "intake_lock": INTAKE_LOCK,
}

FUNCTIONS = _filled(_VALUES + _REQUESTS)
"""All of them, as they are made anew with each version of the schema."""
