/* Fencing tokens of a quorum: every interleaving of a few acquisitions over three nodes.
 *
 * What is modelled: each node has a lock and a counter that outlives it. An acquisition claims a number at each node;
 * where the nodes of a majority did not claim the same number, the highest is the token, and the others have to raise
 * their counters to it, which they do for the owner of the lock alone. No clock is relied upon: a lock may have expired
 * whenever somebody looks at it. Requests and answers may be lost or late, and whoever acquires may stop for ever at any
 * point.
 *
 * What must hold:
 *   unique    no number is the token of two acquisitions
 *   ordered   at a node that both count on, who claimed later has the larger token; and so has who asked when another
 *             one had been granted before
 *   refused   a holder whose write was refused by what the lock protects writes no more, and no write is accepted after
 *             one with a larger token
 *
 * ACQUISITIONS (2 or 3): how many. The mutants, which must fail:
 *   RAISE_BY_ANYBODY   a counter is raised without asking who owns the lock
 *   GRANTED_MAJORITY   a majority of the nodes that granted is enough, not of all
 *   LOST_COUNTER       a node forgets its counter, once
 */
#ifndef ACQUISITIONS
#define ACQUISITIONS 2
#endif
#define NODES 3
#define LIMIT 24                        /* of the tokens */

byte owner[NODES];                      /* of the lock: 1 to ACQUISITIONS; 0: nobody */
byte counter[NODES];

/* What only the checks look at. */
byte token_of[ACQUISITIONS + 1];        /* 0: not granted */
byte confirmed_at[ACQUISITIONS + 1];    /* nodes, as bits */
byte claimed_at[NODES];                 /* by whom so far, as bits */
byte after[NODES * (ACQUISITIONS + 1)]; /* who had claimed there before, as bits */
byte highest = 0;                       /* token that was granted so far */
byte written = 0;                       /* the highest that what the lock protects has seen */

/* Node k grants the lock to `me`: it is free, or its holder's time is over. */
inline claim(k) {
  counter[k] = (proposal > counter[k] + 1 -> proposal : counter[k] + 1);
  owner[k] = me;
#if ACQUISITIONS < 3
  after[NODES * me + k] = claimed_at[k];
  claimed_at[k] = claimed_at[k] | (1 << me)
#endif
}

/* For the checks alone. With three acquisitions the orders at each node are too many to remember. */
inline confirm_at(k) {
#if ACQUISITIONS < 3
  confirmed_at[me] = confirmed_at[me] | (1 << k)
#else
  skip
#endif
}

#ifdef RAISE_BY_ANYBODY
#define may_raise(k) true
#else
#define may_raise(k) (owner[k] == me)
#endif

/* Against each of the others that was granted. */
inline check_order() {
  for (other : 1 .. ACQUISITIONS) {
    if
    :: other != me && token_of[other] > 0 ->
         assert(token_of[other] != token);
         for (k : 0 .. NODES - 1) {
           if
           :: confirmed_at[me] & confirmed_at[other] & (1 << k) ->
                assert(!(after[NODES * me + k] & (1 << other)) || token > token_of[other]);
                assert(!(after[NODES * other + k] & (1 << me)) || token_of[other] > token)
           :: else -> skip
           fi
         }
    :: else -> skip
    fi
  }
}

/* One of the nodes that the request has not come to yet. */
inline pick_unasked() {
  if
  :: !(asked & 1) -> k = 0
  :: !(asked & 2) -> k = 1
  :: !(asked & 4) -> k = 2
  fi;
  asked = asked | (1 << k)
}

#define needed(granted) MAJORITY_OF(granted)
#ifdef GRANTED_MAJORITY
#define MAJORITY_OF(granted) (granted / 2 + 1)
#else
#define MAJORITY_OF(granted) 2
#endif

/* That it stops somewhere needs no word: every prefix of a run is looked at. */
proctype Acquisition(byte me; byte proposal) {
  byte claims[NODES];
  byte k, other, granted, confirmed, token;
  byte asked = 0;                       /* nodes, as bits */
  byte before = highest;

  /* All nodes are asked at once. The verdict falls when a majority has granted. */
  do
  :: atomic {
       asked != 7 ->
       pick_unasked();
       claim(k);
       if
       :: claims[k] = counter[k]; granted++
#if ACQUISITIONS < 3
       :: skip                                                  /* the answer is lost */
#endif
       fi;
       k = 0
     }
  :: granted >= needed(granted) && granted > 0 -> break
  od;
  skip;

  d_step {
    for (k : 0 .. NODES - 1) { token = (claims[k] > token -> claims[k] : token) };
    for (k : 0 .. NODES - 1) {
      if
      :: claims[k] == token -> confirmed++; confirm_at(k); claims[k] = 0
      :: else -> skip
      fi
    };
    k = 0
  };

  /* Those that claimed less have to follow. */
  do
  :: atomic {
       confirmed < needed(granted) ->
       if
       :: claims[0] > 0 -> k = 0
       :: claims[1] > 0 -> k = 1
       :: claims[2] > 0 -> k = 2
       fi;
       claims[k] = 0;
       if
       :: may_raise(k) ->
            counter[k] = (token > counter[k] -> token : counter[k]);
            if
            :: confirmed++; confirm_at(k)
            :: skip                                             /* the answer is lost */
            fi
       :: skip                                                  /* refused: it has expired; or the request is lost */
       fi;
       k = 0
     }
#if ACQUISITIONS < 3
  :: atomic { asked != 7 -> pick_unasked(); claim(k) }          /* a request that comes late */
#endif
  :: confirmed >= needed(granted) -> break
  od;
  skip;

  d_step {                                                      /* granted */
    check_order();
    assert(token > before);
    token_of[me] = token;
    highest = (token > highest -> token : highest);
    claims[0] = 0; claims[1] = 0; claims[2] = 0; k = 0; other = 0; confirmed = 0; granted = 0; before = 0
  };

#if ACQUISITIONS < 3
  /* Writes, and does not know in time that its lock has expired. */
  do
  :: atomic { asked != 7 -> pick_unasked(); claim(k); k = 0 }   /* a request that comes late */
  :: d_step { token >= written -> written = token }
  :: token < written -> break                                   /* refused: it works no more */
  od
#endif
}

#ifdef LOST_COUNTER
active proctype Amnesia() { atomic { counter[0] = 0; owner[0] = 0 } }
#endif

init {
  atomic {
    run Acquisition(1, 0);
    if :: run Acquisition(2, 0) :: run Acquisition(2, 3) fi;
#if ACQUISITIONS > 2
    run Acquisition(3, 0);
#endif
  }
}
