/* A model of one conversation that processes claim, lose and hand over, for spin.
 *
 * The conversation has STEPS steps. A process claims it when no lease on it is live, runs its steps and commits each.
 * Processes die, are paused for longer than their lease, and are drained: they begin no further step, release what they
 * have and restart. The answer of a commit may be lost; the process then asks what became of it. `driver.pml` has what
 * happens inside of a conversation, `poison.pml` what happens when a conversation takes its processes down.
 *
 * How to read it: an `atomic` block is one store operation, or one synchronous piece of code. Everything else interleaves.
 * A lease ends only while its owner is dead, paused or gone, because others renew theirs in time.
 *
 * Options: NP (processes), CRASHES, PAUSES, DRAINS and LOST_ANSWERS (how many of them may happen), and one of the mutants
 * below.
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
#ifndef DRAINS
#define DRAINS 1
#endif
#ifndef LOST_ANSWERS
#define LOST_ANSWERS 1
#endif
#define STEPS 3

/* The assertions:
 * A1: a commit is written only with the newest lease.
 * A2: no step runs whose result is recorded.
 * A3: a step runs twice only if an owner was lost in between.
 * A4: the count of losses is the number of owners that were lost since the last progress.
 * A5: no step is written twice. */

#ifdef CLAIM_IGNORES_OWNER          /* A claim takes a live lease. */
#define IS_FREE 1
#else
#define IS_FREE (!live)
#endif
#ifdef COMMIT_WITHOUT_FENCE         /* A commit does not check the lease. */
#define IS_OWNER(p) (lease[p] != 0)
#else
#define IS_OWNER(p) (lease[p] == fence)
#endif
#ifdef RUN_WITHOUT_LEASE            /* A process that was paused does not look at its lease before it runs a step. */
#define MAY_RUN(p) 1
#else
#define MAY_RUN(p) (lease[p] == fence)
#endif
#ifdef RELEASE_WITHIN_STEP          /* A drain does not wait for the end of the step. */
#define IS_BETWEEN_STEPS(p) 1
#else
#define IS_BETWEEN_STEPS(p) (!running[p] && !isUnsure[p])
#endif
#ifdef KEEP_LOSSES                  /* Progress does not set the count to 0. */
#define CLEARED losses
#else
#define CLEARED 0
#endif
#ifdef DRAIN_WITHOUT_RELEASE        /* A drained process ends with its lease. */
#define RELEASES_AT_DRAIN 0
#else
#define RELEASES_AT_DRAIN 1
#endif
#ifdef COMMIT_AGAIN                 /* After a lost answer the commit is written again. */
#define IS_WRITTEN(p) 0
#else
#define IS_WRITTEN(p) (done > view[p])
#endif
#ifdef NO_EXPIRY                    /* The lease of a lost owner never ends. */
#define MAY_EXPIRE 0
#else
#define MAY_EXPIRE 1
#endif

bit held;                         /* the last lease was not released */
bit live;                         /* and has not ended */
byte fence;
byte losses;                      /* as the store counts them */
byte done;                        /* how many steps are recorded */

byte lease[NP];                   /* the fence of the lease that a process has; 0: none */
byte view[NP];                    /* how many steps it knows to be recorded */
bit running[NP];                  /* it is within a step */
bit isUnsure[NP];                 /* it does not know what became of its commit */
bit paused[NP];
bit draining[NP];

/* What really happened. */
bit isLost;                       /* the owner died or was paused, and has not released */
byte lostSinceProgress, lostEver;
byte runs;                        /* how many steps have begun */
byte crashes = CRASHES, pauses = PAUSES, drains = DRAINS, lostAnswers = LOST_ANSWERS;
/* For the states that the model must reach. */
bit wasTakenOver, wasHandedOver, wasFenced;

inline forget(p) { lease[p] = 0; running[p] = 0; isUnsure[p] = 0 }
inline progress() {
  done++; losses = CLEARED; lostSinceProgress = 0; assert(done <= STEPS)   /* A5 */
}

proctype Process(byte p) {
  do
  /* It claims the conversation. */
  :: atomic { !paused[p] && !draining[p] && lease[p] == 0 && IS_FREE && (held || done < STEPS) && fence < 200 ->
       assert(!live);                                                        /* A1 */
       if :: isLost -> lostSinceProgress++; lostEver++; wasTakenOver = 1 :: else fi;
       losses = losses + held; assert(losses == lostSinceProgress);          /* A4 */
       isLost = 0; held = 1; live = 1; fence++; lease[p] = fence; view[p] = done }
  /* It begins a step. */
  :: atomic { !paused[p] && !draining[p] && lease[p] != 0 && !running[p] && !isUnsure[p] && view[p] < STEPS ->
       if
       :: MAY_RUN(p) -> assert(view[p] == done);                             /* A2 */
            running[p] = 1; runs++; assert(runs <= done + 1 + lostEver)      /* A3 */
       :: else -> wasFenced = 1; forget(p)
       fi }
  /* It commits the step, and may not learn that. */
  :: atomic { !paused[p] && running[p] ->
       running[p] = 0;
       if
       :: IS_OWNER(p) -> assert(lease[p] == fence);                          /* A1 */
            progress();
            if
            :: lostAnswers > 0 -> lostAnswers--; isUnsure[p] = 1
            :: view[p]++
            fi
       :: else -> wasFenced = 1; forget(p)
       fi }
  /* It asks what became of the commit. */
  :: atomic { !paused[p] && isUnsure[p] ->
       isUnsure[p] = 0;
       if
       :: !IS_OWNER(p) -> wasFenced = 1; forget(p)
       :: IS_OWNER(p) && IS_WRITTEN(p) -> view[p]++
       :: IS_OWNER(p) && !IS_WRITTEN(p) -> progress(); assert(done == view[p] + 1); view[p]++
       fi }
  /* It releases the conversation at its end, or between two steps if it is drained. */
  :: atomic { !paused[p] && lease[p] != 0 &&
              (draining[p] && IS_BETWEEN_STEPS(p) || view[p] == STEPS && !running[p] && !isUnsure[p]) ->
       if
       :: lease[p] != fence -> wasFenced = 1
       :: lease[p] == fence && (RELEASES_AT_DRAIN || !draining[p]) ->
            held = 0; live = 0; isLost = 0;
            wasHandedOver = wasHandedOver || (draining[p] && view[p] < STEPS)
       :: lease[p] == fence && !RELEASES_AT_DRAIN && draining[p] -> live = 0
       fi;
       forget(p) }
  /* A drained process restarts. */
  :: atomic { draining[p] && lease[p] == 0 -> draining[p] = 0 }
  od
}

/* What happens to the processes. */
proctype Outside() {
  byte p;
  do
  :: atomic { crashes > 0 -> crashes--; select(p : 0 .. NP-1);
       if :: lease[p] == fence && held -> isLost = 1 :: else fi;
       forget(p); paused[p] = 0; draining[p] = 0; p = 0 }
  :: atomic { pauses > 0 -> pauses--; select(p : 0 .. NP-1); paused[p] = 1; p = 0 }
  :: atomic { drains > 0 -> drains--; select(p : 0 .. NP-1); draining[p] = 1; p = 0 }
  :: break
  od;
  do
  :: atomic { paused[0] -> paused[0] = 0 }
  :: atomic { paused[1] -> paused[1] = 0 }
#if NP == 3
  :: atomic { paused[2] -> paused[2] = 0 }
#endif
  od
}

#define RENEWS(p) (lease[p] == fence && !paused[p])
#if NP == 3
#define IS_RENEWED (RENEWS(0) || RENEWS(1) || RENEWS(2))
#else
#define IS_RENEWED (RENEWS(0) || RENEWS(1))
#endif
/* The lease of an owner that is dead or paused ends. */
proctype Database() {
  do
  :: atomic { MAY_EXPIRE && live && !IS_RENEWED -> live = 0; isLost = 1 }
  od
}

init {
  byte p;
  atomic {
    for (p : 0 .. NP-1) { run Process(p) }
    run Outside(); run Database()
  }
}

/* All steps are recorded, and nobody has the conversation. */
ltl ends { <> (done == STEPS && !held) }
/* These must fail: they show that the model reaches the cases it is about. */
ltl never_taken_over  { [] !wasTakenOver }
ltl never_handed_over { [] !wasHandedOver }
ltl never_fenced      { [] !wasFenced }
