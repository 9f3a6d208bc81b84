/* A model of conversations that take their processes down, for spin.
 *
 * Conversation POISON ends its process whenever it runs; the others are innocent. Processes restart. An owner that dies
 * leaves its leases behind, and whoever acquires one of them counts a loss. `driver.pml` has what happens inside of a
 * conversation.
 *
 * How to read it: an `atomic` block is one store operation, or one synchronous piece of code. Everything else interleaves.
 * A suspect keeps its turn until it makes progress; the real one ends after 30 seconds.
 *
 * Not in the model: an owner that is paused, and conversations that share a process with one that makes progress before
 * each of its deaths. Such a one is no suspect, so nothing keeps it apart from them.
 *
 * Options: NP (processes), CRASHES (how many more times a process may die), PROGRESSES (POISON stores a reply before each
 * of its deaths, and ends after MAX_RUNS of them), and one of the mutants below.
 */
#ifndef NP
#define NP 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef PROGRESSES
#define PROGRESSES 0
#endif
#define NC 3
#define POISON 0
#define NONE 9
#define SUSPECT 2
#define POISONED 5
#define MAX_RUNS 7

/* The assertions: a conversation that makes no progress runs at most five times; an innocent conversation never ends as
 * poison, nor one that makes progress; a suspect that is cancelled does not run. */

#ifdef ALL_AT_ONCE                  /* A process runs all of its suspects at once. */
#define HAS_TURN(p) 1
#else
#define HAS_TURN(p) (turn[p] == NONE)
#endif
#ifdef KEEP_LOSSES                  /* Progress does not set the count to 0. */
#define CLEARED(c) losses[c]
#else
#define CLEARED(c) 0
#endif
#ifdef NEVER_POISONED               /* A conversation is run again after any number of losses. */
#define IS_POISONED(c) 0
#else
#define IS_POISONED(c) (losses[c] >= POISONED)
#endif
#ifdef RUN_BEFORE_CANCEL            /* A suspect that is cancelled may run. */
#define IS_CANCELLED(c) (c == POISON && posted && losses[c] < SUSPECT)
#else
#define IS_CANCELLED(c) (c == POISON && posted)
#endif

mtype = { open, completed, cancelled, poisoned };
mtype status[NC] = open;
byte owner[NC] = NONE;            /* the process with a live lease */
bit held[NC];                     /* the last lease was not released */
byte losses[NC];
byte turn[NP] = NONE;             /* the suspect that a process runs */
byte runs;                        /* how often POISON has run */
bit posted;                       /* a cancel of POISON */

inline leaveTurn(p, c) { if :: turn[p] == c -> turn[p] = NONE :: else fi }
inline end(p, c, s) { status[c] = s; losses[c] = 0; held[c] = 0; owner[c] = NONE; leaveTurn(p, c) }
inline progress(p, c) { losses[c] = CLEARED(c); leaveTurn(p, c) }
/* The process restarts at once; its leases expire, and another process may take them before. */
inline die(p) {
  d_step {
    for (i : 0 .. NC-1) { if :: owner[i] == p -> owner[i] = NONE :: else fi }
    turn[p] = NONE; i = 0
  }
}

/* The work of process p for conversation c. */
proctype Conversation(byte p, c) {
  byte i;
  do
  :: atomic { status[c] == open && owner[c] == NONE && (losses[c] + held[c] < SUSPECT || HAS_TURN(p)) ->
       losses[c] = losses[c] + held[c]; held[c] = 1; owner[c] = p;
       if :: losses[c] >= SUSPECT -> turn[p] = c :: else fi }
  :: atomic { owner[c] == p && IS_POISONED(c) -> assert((c == POISON) == !PROGRESSES); end(p, c, poisoned) }
  :: atomic { owner[c] == p && !IS_POISONED(c) && IS_CANCELLED(c) -> end(p, c, cancelled) }
  :: atomic { owner[c] == p && !IS_POISONED(c) && c != POISON -> end(p, c, completed) }
  :: atomic { owner[c] == p && !IS_POISONED(c) && c == POISON && (!IS_CANCELLED(c) || losses[c] < SUSPECT) ->
       assert(!posted || losses[c] < SUSPECT);
       runs++; assert(PROGRESSES || runs <= POISONED);
       if
       :: PROGRESSES && runs == MAX_RUNS -> end(p, c, completed)
       :: PROGRESSES && runs < MAX_RUNS -> progress(p, c); die(p)
       :: !PROGRESSES -> die(p)
       fi }
  od
}

/* Deaths for other reasons, and a cancel. */
proctype Outside() {
  byte crashes = CRASHES, i, p;
  do
  :: atomic { crashes > 0 -> crashes--; select(p : 0 .. NP-1); die(p); p = 0 }
  :: atomic { !posted && status[POISON] == open -> posted = 1 }
  :: break
  od
}

init {
  byte p;
  atomic {
    for (p : 0 .. NP-1) { run Conversation(p, 0); run Conversation(p, 1); run Conversation(p, 2) }
    run Outside()
  }
}

#define ALL_ENDED (status[0] != open && status[1] != open && status[2] != open)
/* All conversations end, the poisonous one too. */
ltl ends    { <> ALL_ENDED }
ltl cancels { [] (posted -> <> (status[POISON] != open)) }
/* These must fail: they show that the model reaches the cases it is about. */
ltl never_poisoned      { [] (status[POISON] != poisoned) }
ltl never_lost_together { [] (losses[1] < SUSPECT) }
