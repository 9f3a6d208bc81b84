/* A model of the driver, for spin.
 *
 * Doors post rows and records to the store. The process that holds the lease drives tasks. Every other process
 * follows. The model has NP processes and one session with two root tasks. Task t is sent by process t. Task 0 may
 * suspend, once or twice; process 1 answers its first suspension.
 *
 * How to read it:
 * - An `atomic` block is one store operation, or one synchronous piece of code. Everything else interleaves.
 * - A wake-up only sets `mustLook`, and it may be lost. The rules must hold without wake-ups.
 * - A process that waits is a guard, not a loop. Runs are therefore finite, and a formula holds if every run ends well.
 * - Every process may be arbitrarily slow. A pause (SIGSTOP) is therefore one step: the lease of a running owner
 *   expires, and the owner continues later without noticing.
 *
 * Not in the model: children, hints, steers, live values, unknown agents, store failures, restarted processes.
 *
 * Options: NP (processes), CRASHES and PAUSES (how many may happen), TIMER (0: followers and the task runner never
 * look by themselves), CANCELLED (the task that the cancel door cancels), CHECK (the one assertion to check; 0: all,
 * 9: none), FOLLOWS (0: the answer door returns after its post, and task 0 suspends once, for the largest searches),
 * and one of the mutants below.
 */
#ifndef NP
#define NP 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef PAUSES
#define PAUSES 1
#endif
#ifndef TIMER
#define TIMER 1
#endif
#ifndef CANCELLED
#define CANCELLED 0
#endif
#ifndef CHECK
#define CHECK 0
#endif
#ifndef FOLLOWS
#define FOLLOWS 1
#endif

/* S1 At most one task of the session runs.
 * S2 Only the holder of the current lease changes a task or takes a row.
 * S3 A row is taken once, and an ended task does not change.
 * S4 A door throws session_suspended only if its task is cancelled.
 * S5 A run stops only when all work is done.
 * S6 An answering door that returns a suspension returns one that came after its answer.
 * S7 A cancel with ifQueued does not end a task that has begun. */
#define S(number, condition) assert((CHECK != 0 && CHECK != number) || (condition))

/* ---- Mutants: each breaks one rule, and some property must fail ---- */

#ifdef POST_WITHOUT_LOOK            /* The writer does not look for an owner after it has posted. */
#define LOOKS_AFTER_POST 0
#else
#define LOOKS_AFTER_POST 1
#endif
#ifdef RELEASE_WITHOUT_LOOK         /* The owner does not look again after it has released the lease. */
#define LOOKS_AFTER_RELEASE 0
#define LOOKS_BEFORE_RELEASE 0
#elif defined(LOOK_THEN_RELEASE)    /* The owner looks again, but before it releases the lease. */
#define LOOKS_AFTER_RELEASE 0
#define LOOKS_BEFORE_RELEASE 1
#else
#define LOOKS_AFTER_RELEASE 1
#define LOOKS_BEFORE_RELEASE 0
#endif
#ifdef SUBMIT_WITHOUT_BEGINS        /* The first commit of a task does not check for earlier unfinished tasks. */
#define CHECKS_BEGINS 0
#else
#define CHECKS_BEGINS 1
#endif
#ifdef TAKE_WITHOUT_FENCE           /* Rows are taken outside of the fenced commit. */
#define FENCES_ROWS 0
#else
#define FENCES_ROWS 1
#endif
#ifdef KEEP_STALE_ROWS              /* The plan has no move for rows of ended tasks. */
#define DROPS_STALE_ROWS 0
#else
#define DROPS_STALE_ROWS 1
#endif
#ifdef FENCED_SUBMIT_IS_LOST        /* A door whose first commit was fenced does not enqueue its task. */
#define ENQUEUES_AFTER_FENCED 0
#else
#define ENQUEUES_AFTER_FENCED 1
#endif
#ifdef SUBMIT_WHILE_RELEASING       /* A door submits to a scheduler that is releasing the lease. */
#define OWNS_HERE(p) (role[p] != away)
#else
#define OWNS_HERE(p) (role[p] == owner)
#endif
#ifdef THROW_BEFORE_RECORD          /* A door throws session_suspended when it posts the cancel with ifQueued. */
#define THROWS_EARLY 1
#else
#define THROWS_EARLY 0
#endif
#ifdef WITHDRAW_RUNNING             /* The owner obeys a cancel with ifQueued after the task has begun. */
#define WITHDRAWS(t) (t == 1 && PENDING(WITHDRAW))
#else
#define WITHDRAWS(t) (t == 1 && status[1] == queued && PENDING(WITHDRAW))
#endif
#ifdef RECORD_BEFORE_ROWS           /* An answering door reads the record before the rows. */
#define READS_ROWS_FIRST 0
#else
#define READS_ROWS_FIRST 1
#endif

mtype = { absent, queued, running, suspended, completed, cancelled };          /* the status of a task */
mtype = { away, owner, releasing };                                            /* the role of a process */
mtype = { idle, opened, submitting, beginning, resuming, executing, cancelling, dropping };   /* a drive */
mtype = { validate, submit, acquire, enqueue, follow, withdraw, decide };      /* a text door */
mtype = { uncalled, post, readFirst, readSecond, returned };                   /* the answer door */

/* ---- The store ---- */

#define NONE 9
mtype status[2] = absent;
byte first = NONE;                /* the task that was inserted first */
byte suspensions = 0;             /* how often task 0 has suspended */
byte holder = NONE, fence = 0;    /* the lease */
bit expired = 0;                  /* the lease has expired, and no process has acquired it since */
#define ANSWER 0                  /* row: the answer to the first suspension of task 0 */
#define CANCEL 1                  /* row: a cancel of task CANCELLED */
#define WITHDRAW 2                /* row: a cancel of task 1 with ifQueued */
bit posted[3], taken[3];

/* ---- The processes ---- */

#define D(p, t) ((p)*2+(t))       /* the index of task t's drive in process p */
#define ANSWERER 1                /* the process of the answer door */
bit dead[NP];
mtype role[NP] = away;
byte token[NP];                   /* the fence of the lease that the process has acquired */
bit mustLook[NP];                 /* the scheduler must look; requests coalesce */
bit hasRead[NP];                  /* the scheduler has read the store and not acted yet */
bit move[NP*2];                   /* the moves that it has read */
bit mustCheck[NP];                /* the process must look without a lease */
bit mayAcquire[NP];               /* it has found a move and no owner */
mtype drive[NP*2] = idle;
mtype door[2] = validate;
mtype answerDoor = uncalled;
bit threw;                        /* door 1 has thrown session_suspended after posting WITHDRAW */

#define UP(p)       (!dead[p])
#define OWNED       (holder != NONE && !expired)
#define HOLDS(p)    (holder == p && token[p] == fence)
#define ENDED(t)    (status[t] == completed || status[t] == cancelled)
#define BEHIND(t)   (first != NONE && first != t && !ENDED(first))
#define PENDING(r)  (posted[r] && !taken[r])
#define HAS_ROWS(t) ((t == 0 && PENDING(ANSWER)) || (t == CANCELLED && PENDING(CANCEL)) || (t == 1 && PENDING(WITHDRAW)))
#define MUST_END(t) ((t == CANCELLED && PENDING(CANCEL)) || WITHDRAWS(t))

/* The plan: whether task t can move. */
#define MOVES(t) \
  ((ENDED(t) && HAS_ROWS(t) && DROPS_STALE_ROWS) || \
   (status[t] != absent && !ENDED(t) && \
     (MUST_END(t) || (status[t] == queued && !BEHIND(t)) || status[t] == running || \
      (t == 0 && status[t] == suspended && PENDING(ANSWER)))))
#define CAN_MOVE (MOVES(0) || MOVES(1))

/* After a post by process p. The wake-up of the owner may be lost; then process p looks for an owner. */
inline announce(p) {
  if
  :: holder != NONE && role[holder] == owner -> mustLook[holder] = 1
  :: true
  fi;
  mustCheck[p] = mustCheck[p] || LOOKS_AFTER_POST
}

inline takeRow(p, r) { S(2, HOLDS(p)); S(3, posted[r] && !taken[r]); taken[r] = 1 }
inline takeRows(p, t) {
  if :: t == 0 && PENDING(ANSWER) -> takeRow(p, ANSWER) :: else fi;
  if :: t == CANCELLED && PENDING(CANCEL) -> takeRow(p, CANCEL) :: else fi;
  if :: t == 1 && PENDING(WITHDRAW) -> takeRow(p, WITHDRAW) :: else fi
}

/* A new fence differs from every fence in use. Only equality matters, so the smallest such number keeps the model small. */
inline acquireLease(p) {
  fence = 1;
  do :: fence == token[0] || fence == token[1] || fence == token[NP-1] -> fence++ :: else -> break od;
  holder = p; expired = 0; token[p] = fence; role[p] = owner; mustLook[p] = 1
}
inline forgetOwnership(p) {
  role[p] = away; token[p] = 0; mustLook[p] = 0; hasRead[p] = 0;
  move[D(p,0)] = 0; move[D(p,1)] = 0; drive[D(p,0)] = idle; drive[D(p,1)] = idle
}
/* A rejected commit ends the ownership. A door whose first commit was rejected has no record to follow: it enqueues. */
inline loseOwnership(p) {
  if
  :: p < 2 && drive[D(p,p)] == submitting && ENQUEUES_AFTER_FENCED -> door[p] = enqueue
  :: else
  fi;
  forgetOwnership(p)
}
/* The store may accept or reject a commit under an expired lease that no other process has acquired. */
inline commit(p) {
  if
  :: HOLDS(p) -> accepted = 1; expired = 0
  :: HOLDS(p) && expired -> accepted = 0
  :: !HOLDS(p) -> accepted = 0
  fi
}
inline setStatus(p, t, s) {
  S(1, s != running || status[1-t] != running);
  S(2, HOLDS(p));
  S(3, !ENDED(t));
  status[t] = s
}
inline run_(p, t) { setStatus(p, t, running); drive[D(p,t)] = executing }
inline endDrive(p, t) { drive[D(p,t)] = idle; mustLook[p] = 1 }

/* The drive of task t in process p. */
proctype Drive(byte p, t) {
  bit accepted;
  do
  :: atomic { UP(p) && drive[D(p,t)] == opened ->          /* Read the record and its rows; a cancel comes first. */
       if
       :: ENDED(t) && HAS_ROWS(t) -> drive[D(p,t)] = dropping
       :: !ENDED(t) && MUST_END(t) -> drive[D(p,t)] = cancelling
       :: status[t] == queued && !MUST_END(t) -> drive[D(p,t)] = beginning
       :: status[t] == running && !MUST_END(t) -> drive[D(p,t)] = executing
       :: t == 0 && status[t] == suspended && !MUST_END(t) && PENDING(ANSWER) -> drive[D(p,t)] = resuming
       :: else -> endDrive(p, t)
       fi }
  :: atomic { UP(p) && drive[D(p,t)] == executing && MUST_END(t) -> drive[D(p,t)] = cancelling }
  :: atomic { UP(p) && drive[D(p,t)] == submitting -> commit(p);   /* One commit writes the record and begins it. */
       if
       :: !accepted -> loseOwnership(p)
       :: accepted && BEHIND(t) && CHECKS_BEGINS -> endDrive(p, t); door[t] = enqueue
       :: accepted && !(BEHIND(t) && CHECKS_BEGINS) ->
            if :: first == NONE -> first = t :: else fi; run_(p, t)
       fi; accepted = 0 }
  :: atomic { UP(p) && (drive[D(p,t)] == beginning || drive[D(p,t)] == resuming || drive[D(p,t)] == executing ||
              drive[D(p,t)] == cancelling || drive[D(p,t)] == dropping) -> commit(p);
       if
       :: accepted && drive[D(p,t)] == cancelling ->
            S(7, status[t] == queued || (t == CANCELLED && PENDING(CANCEL)))
       :: else
       fi;
       if
       :: (accepted || !FENCES_ROWS) && drive[D(p,t)] == resuming -> takeRow(p, ANSWER)
       :: (accepted || !FENCES_ROWS) && (drive[D(p,t)] == cancelling || drive[D(p,t)] == dropping) -> takeRows(p, t)
       :: else
       fi;
       if
       :: !accepted -> loseOwnership(p)
       :: accepted && (drive[D(p,t)] == beginning || drive[D(p,t)] == resuming) -> run_(p, t)
       :: accepted && drive[D(p,t)] == executing -> setStatus(p, t, completed); endDrive(p, t)
       :: accepted && drive[D(p,t)] == executing && t == 0 &&
            (suspensions == 0 || (FOLLOWS && suspensions == 1 && taken[ANSWER])) ->
            setStatus(p, t, suspended); suspensions++; endDrive(p, t)
       :: accepted && drive[D(p,t)] == cancelling -> setStatus(p, t, cancelled); endDrive(p, t)
       :: accepted && drive[D(p,t)] == dropping -> endDrive(p, t)
       fi; accepted = 0 }
  od
}

/* The follower and the scheduler of process p. */
proctype Process(byte p) {
  do
  :: atomic { UP(p) && mustCheck[p] -> mustCheck[p] = 0;           /* Look without a lease, asked by a post or a release. */
       if :: role[p] == away && !OWNED && CAN_MOVE -> mayAcquire[p] = 1 :: else fi }
  :: atomic { TIMER && UP(p) && !mayAcquire[p] && role[p] == away && !OWNED && CAN_MOVE -> mayAcquire[p] = 1 }
  :: atomic { UP(p) && mayAcquire[p] && role[p] != releasing -> mayAcquire[p] = 0;
       if :: role[p] == away && !OWNED -> acquireLease(p) :: else fi }
  :: atomic { UP(p) && role[p] == owner && mustLook[p] && !hasRead[p] ->     /* The scheduler looks: it reads, */
       mustLook[p] = 0; hasRead[p] = 1; move[D(p,0)] = MOVES(0); move[D(p,1)] = MOVES(1) }
  :: atomic { UP(p) && hasRead[p] -> hasRead[p] = 0;                         /* and then starts drives. */
       if :: move[D(p,0)] && drive[D(p,0)] == idle -> drive[D(p,0)] = opened :: else fi;
       if :: move[D(p,1)] && drive[D(p,1)] == idle -> drive[D(p,1)] = opened :: else fi;
       move[D(p,0)] = 0; move[D(p,1)] = 0;
       if :: drive[D(p,0)] == idle && drive[D(p,1)] == idle && !mustLook[p] -> role[p] = releasing :: else fi }
  :: atomic { LOOKS_BEFORE_RELEASE && UP(p) && role[p] == releasing && !mustLook[p] -> mustLook[p] = 1;
       if :: CAN_MOVE -> role[p] = owner :: else fi }
  :: atomic { UP(p) && role[p] == releasing && (!LOOKS_BEFORE_RELEASE || mustLook[p]) ->
       if :: HOLDS(p) -> holder = NONE; fence = 0; expired = 0 :: else fi;
       forgetOwnership(p); mustCheck[p] = mustCheck[p] || LOOKS_AFTER_RELEASE }
  od
}

/* The door of process t that sends the text of task t. */
proctype TextDoor(byte t) {
  do
  :: atomic { UP(t) && door[t] == validate ->
       if
       :: status[1-t] == suspended -> break                        /* throws session_suspended, writes nothing */
       :: status[1-t] != suspended && OWNS_HERE(t) && (status[1-t] == absent || ENDED(1-t)) -> door[t] = submit
       :: status[1-t] != suspended && !OWNED -> door[t] = acquire
       :: else -> door[t] = enqueue
       fi }
  :: atomic { UP(t) && door[t] == submit ->
       if :: OWNS_HERE(t) -> drive[D(t,t)] = submitting; door[t] = follow :: else -> door[t] = enqueue fi }
  :: atomic { UP(t) && door[t] == acquire ->
       if
       :: role[t] == away && !OWNED -> acquireLease(t); drive[D(t,t)] = submitting; door[t] = follow
       :: else -> door[t] = enqueue
       fi }
  :: atomic { UP(t) && door[t] == enqueue -> door[t] = follow; status[t] = queued;
       if :: first == NONE -> first = t :: else fi; announce(t) }
  /* The predecessor has suspended: cancel the task if it is still queued, and decide from the record. */
  :: atomic { UP(t) && door[t] == follow && t == 1 && status[1] == queued && status[0] == suspended ->
       door[t] = withdraw }
  :: atomic { UP(t) && door[t] == withdraw -> door[t] = decide; posted[WITHDRAW] = 1;
       threw = THROWS_EARLY; announce(1) }
  :: atomic { UP(t) && door[t] == decide && ENDED(1) ->
       if :: status[1] == cancelled -> threw = 1 :: else fi; S(4, !threw || status[1] == cancelled); break }
  od
}

/* The door that answers task 0 from a process that did not send it. It returns when the task has ended, or has
 * suspended again after the answer was taken. */
proctype AnswerDoor() {
  bit isTaken, isSuspended;
  byte seen;                        /* the suspension that the door has read */
  if
  :: true -> goto end               /* The door is never called. */
  :: atomic { UP(ANSWERER) && status[0] == suspended && suspensions == 1 -> answerDoor = post }
  fi;
  atomic { UP(ANSWERER) -> posted[ANSWER] = 1; announce(ANSWERER);
    if :: FOLLOWS -> answerDoor = readFirst :: else -> answerDoor = returned; goto end fi }
  /* Reading again until the guard holds changes nothing, so each reading is a guard. */
  if
  :: atomic { READS_ROWS_FIRST && UP(ANSWERER) && (taken[ANSWER] || ENDED(0)) ->
       isTaken = taken[ANSWER]; answerDoor = readSecond }
     atomic { UP(ANSWERER) && (ENDED(0) || (status[0] == suspended && isTaken)) ->
       isSuspended = (status[0] == suspended); seen = suspensions }
  :: atomic { !READS_ROWS_FIRST && UP(ANSWERER) && (ENDED(0) || status[0] == suspended) ->
       isSuspended = (status[0] == suspended); seen = suspensions; answerDoor = readSecond }
     atomic { UP(ANSWERER) && (!isSuspended || taken[ANSWER]) }
  fi;
  atomic { S(6, !isSuspended || seen == 2); isTaken = 0; isSuspended = 0; seen = 0; answerDoor = returned }
end: skip
}

/* A door that posts a cancel and does not follow. */
proctype CancelDoor() {
  if
  :: atomic { UP(0) && status[CANCELLED] != absent -> posted[CANCEL] = 1; announce(0) }
  :: true                           /* The door is never called. */
  fi
}

proctype Failures() {
  byte crashes = CRASHES, pauses = PAUSES, p;
  do
  :: atomic { crashes > 0 -> crashes--; select(p : 0 .. NP-1);
       if :: UP(p) -> dead[p] = 1; forgetOwnership(p); mustCheck[p] = 0; mayAcquire[p] = 0 :: else fi; p = 0 }
  :: atomic { OWNED && dead[holder] -> expired = 1 }
  :: atomic { pauses > 0 && OWNED && !dead[holder] -> pauses--; expired = 1 }
  :: atomic { crashes > 0 || pauses > 0 -> crashes = 0; pauses = 0 }
  od
}

/* Task t may stay as it is. */
#define RESTS(t) (ENDED(t) || (t == 0 && status[t] == suspended && !PENDING(ANSWER) && !MUST_END(t)) || \
   (status[t] == queued && BEHIND(t) && status[1-t] == suspended && !MUST_END(t)) || \
   (status[t] == absent && (dead[t] || door[t] == validate)))
#define NO_ROWS (!PENDING(ANSWER) && !PENDING(CANCEL) && !PENDING(WITHDRAW))
#define ANSWER_HEARD (!posted[ANSWER] || ENDED(0) || suspensions == 2)
#define ANSWERER_DONE (dead[ANSWERER] || answerDoor == uncalled || answerDoor == returned)
#define ALL_DONE (RESTS(0) && RESTS(1) && NO_ROWS && (!posted[CANCEL] || ENDED(CANCELLED)) && \
   ANSWER_HEARD && ANSWERER_DONE)
proctype End() { timeout -> S(5, ALL_DONE) }

init {
  byte i;
  atomic {
    for (i : 0 .. NP-1) { run Process(i); run Drive(i, 0); run Drive(i, 1) }
    run TextDoor(0); run TextDoor(1); run AnswerDoor(); run CancelDoor(); run Failures(); run End()
  }
}

ltl tasks   { <> [] (RESTS(0) && RESTS(1)) }
ltl answers { [] (posted[ANSWER] -> <> (taken[ANSWER] && (status[0] == running || ENDED(0)))) }
ltl returns { [] (posted[ANSWER] -> <> ANSWERER_DONE) }
ltl cancels { [] (posted[CANCEL] -> <> ENDED(CANCELLED)) }
ltl rows    { <> [] NO_ROWS }
/* All of them at once. */
ltl live    { <> [] ALL_DONE }
/* These must fail: they show that the model reaches the cases it is about. */
ltl never_withdrawn       { [] !threw }
ltl never_suspended_again { [] !(answerDoor == returned && status[0] == suspended) }
ltl never_taken_over      { [] !(role[0] != away && role[1] != away) }
