/* The lifecycle of one job, its workers, and a network that loses, doubles and reorders requests.
 *
 * Checked exhaustively with spin; README.md says how, what is left out, and what each broken twin shows.
 * A twin is this file with one rule wrong: spin -DBROKEN_NAME. Each must fail, or the checks prove nothing.
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif
#ifndef LEASES
#define LEASES 4  /* leases of the job while there are faults; once they end there may be more */
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 2  /* requests under way at a time */
#endif

mtype:state = { queued, running, failed, succeeded, dead, canceled };
mtype:ask = { nothing, renew, complete, fail, give_up, release };

/* The job, as the log has it. */
mtype:state state = queued;
byte token, attempts;
bool lapsed;  /* the lease's time has run out; that it did is not in the log yet */
bool due = true;
bool by_failure;  /* a worker's failure is the last thing recorded */

/* What each worker believes: the token it was given, the number of its lease (0: it has none), how it wants to end. */
byte shown[WORKERS], lease[WORKERS];
mtype:ask chosen[WORKERS] = nothing;

/* Requests under way: what, by which worker, with which token, meaning which lease. */
chan network = [IN_FLIGHT] of { mtype:ask, byte, byte, byte };

/* What no correct coordinator needs, and a judge does. */
byte leases;             /* how many there were: sound tokens are their numbers */
byte successes, winner;  /* how many were recorded, and of which lease */
byte thanked;            /* the lease whose worker was told that its success is on record */
bool intruded;           /* a request of a lease that is over changed the job */
bool overslept;          /* a lease was renewed after its time */
bool calm;               /* faults have ended */

#define waiting (state == queued || state == failed)
#define ended (state == succeeded || state == dead || state == canceled)

#ifdef BROKEN_NO_TOKEN_CHECK
#define current(t) (state == running)
#else
#define current(t) (state == running && t == token)
#endif

inline end_lease(next) {
    state = next;
    lapsed = false;
    by_failure = false
}

/* One command of a worker that holds the current token, decided and recorded. */
inline obey(what, whose) {
    intruded = intruded || whose != leases;
    if
    :: what == renew ->
        overslept = overslept || lapsed;
#ifdef BROKEN_TOKEN_RAISED_BY_RENEWAL
        token++;
#endif
        lapsed = false
    :: what == complete ->
        end_lease(succeeded);
        successes++;
        winner = whose
#ifdef BROKEN_UNBOUNDED_ATTEMPTS
    :: what == fail && attempts >= MAX_ATTEMPTS -> end_lease(queued)
#endif
    :: what == fail && attempts < MAX_ATTEMPTS ->
        end_lease(failed);
        by_failure = true;
        due = false
    :: what == give_up || (what == fail && attempts >= MAX_ATTEMPTS) ->
        end_lease(dead);
        by_failure = true
    :: what == release ->
        end_lease(queued);
        attempts--
    fi
}

/* The worker hears the answer to its request. */
inline hear(what, who, whose, refused) {
    if
    :: lease[who] == whose && (what == chosen[who] || (what == renew && refused)) ->
        if
        :: what == complete && !refused -> thanked = whose
        :: else
        fi;
        lease[who] = 0;
        shown[who] = 0;
        chosen[who] = nothing
    :: else
    fi
}

active [WORKERS] proctype worker() {
    mtype:ask what;
    do
    :: atomic {  /* it asks for a job and gets it; the answer may be lost */
        lease[_pid] == 0 && waiting && due && (calm || leases < LEASES) ->
            leases++;
#ifndef BROKEN_TOKEN_NOT_RAISED
            token++;
#else
            token = 1;
#endif
            attempts++;
            end_lease(running);
            if
            :: lease[_pid] = leases; shown[_pid] = token
            :: !calm
            fi
        }
    :: atomic {  /* it asks for a renewal, or settles its lease; once faults have ended it does come to an end */
        lease[_pid] != 0 && chosen[_pid] == nothing && nfull(network) ->
            if
            :: !calm -> what = renew
            :: !calm -> what = release
            :: !calm -> what = give_up
            :: what = complete
            :: what = fail
            fi;
            if
            :: what != renew -> chosen[_pid] = what
            :: else
            fi;
            network!what, _pid, shown[_pid], lease[_pid];
            what = nothing
        }
    :: atomic {  /* it had no answer and asks the same again */
        chosen[_pid] != nothing && nfull(network) &&
        !(network??[eval(chosen[_pid]), eval(_pid), eval(shown[_pid]), eval(lease[_pid])]) ->
            network!chosen[_pid], _pid, shown[_pid], lease[_pid]
        }
    :: atomic {  /* it crashes and forgets */
        !calm && lease[_pid] != 0 -> lease[_pid] = 0; shown[_pid] = 0; chosen[_pid] = nothing
        }
    od
}

active proctype coordinator() {
    mtype:ask what;
    byte who, t, whose;
    bool refused;
    do
    :: atomic {
        nempty(network) ->
            if
            :: network?what, who, t, whose
            :: !calm -> network?<what, who, t, whose>  /* and once more, later */
            fi;
#ifdef BROKEN_ANSWER_BEFORE_COMMIT
            if
            :: !calm && current(t) -> hear(what, who, whose, false); goto done  /* a crash: what was answered is lost */
            :: true
            fi;
#endif
            refused = false;
            if
#ifndef BROKEN_RENEWED_TOO_LATE
            :: current(t) && what == renew && lapsed -> refused = true
            :: current(t) && !(what == renew && lapsed) -> obey(what, whose)
#else
            :: current(t) -> obey(what, whose)
#endif
#ifdef BROKEN_RECORDED_AGAIN
            :: state == succeeded && what == complete && t == token -> successes++; winner = whose
#else
            :: state == succeeded && what == complete && t == token  /* the same answer, nothing recorded */
#endif
            :: by_failure && (what == fail || what == give_up) && t == token  /* the same */
            :: else -> refused = true
            fi;
            if
            :: hear(what, who, whose, refused)
            :: !calm
            fi;
#ifdef BROKEN_ANSWER_BEFORE_COMMIT
done:
#endif
            what = nothing; who = 0; t = 0; whose = 0; refused = false
        }
    od
}

active proctype rescuer() {
#ifndef BROKEN_NO_RESCUER
    do
    :: atomic {
        state == running && lapsed ->
            if
#ifdef BROKEN_LAST_LEASE_SPARED
            :: attempts >= MAX_ATTEMPTS
#else
            :: attempts >= MAX_ATTEMPTS -> end_lease(dead)
#endif
            :: attempts < MAX_ATTEMPTS ->
                end_lease(queued)
#ifdef BROKEN_EXPIRY_NOT_COUNTED
                ; attempts--
#endif
            fi
        }
    od
#else
    skip
#endif
}

active proctype clock() {
    do
    :: atomic { state == running && !lapsed -> lapsed = true }
    :: atomic { !due -> due = true }
    od
}

active proctype operator() {
    do
#ifdef BROKEN_CANCELED_TOO_LATE
    :: atomic { !calm && state == succeeded -> end_lease(canceled) }
#endif
    :: atomic { !calm && !ended -> end_lease(canceled) }
    :: atomic {
        !calm && state == dead && leases < LEASES ->
            end_lease(queued);
            attempts = 0;
            due = true
#ifdef BROKEN_TOKEN_RESET
            ; token = 0
#endif
        }
    od
}

active proctype faults() {
    mtype:ask what;
    byte who, t, whose;
    do
    :: atomic { !calm && nempty(network) -> network?what, who, t, whose; what = nothing; who = 0; t = 0; whose = 0 }
    :: atomic {  /* one request overtakes the others */
        !calm && nempty(network) ->
            network?what, who, t, whose;
            network!what, who, t, whose;
            what = nothing; who = 0; t = 0; whose = 0
        }
    :: atomic { !calm -> calm = true }
    od
}

ltl one_success { [] (successes <= 1) }
ltl success_stays { [] ((state == succeeded) -> [] (state == succeeded)) }
ltl what_was_promised_is_kept { [] (thanked != 0 -> (state == succeeded && winner == thanked)) }
ltl tokens_only_grow { [] (token == leases) }
ltl no_intruder { [] !intruded }
ltl renewed_in_time { [] !overslept }
ltl attempts_are_bounded { [] (attempts <= MAX_ATTEMPTS) }
ltl every_job_ends { [] (calm -> <> ended) }
