"""The shapes of the peer's benchmark, by its names: the same tables under the same aliases, the same conditions, joins
and results, each condition where that benchmark's plans have it; tables and texts scaled down.
"""

from __future__ import annotations

from shapes.writing import c, f, j, one_of, q

MOODS = ("negative", "mixed", "positive", "neutral")
COMPLAINTS = ("acting", "writing", "effects", "slow", "ending", "long", "violent", "none")
KINDS = (
    *(
        "action",
        "travel",
        "cartoon",
        "life",
        "comedy",
        "crime",
        "factual",
        "drama",
        "family",
        "magic",
        "past",
    ),
    *("horror", "music", "musical", "mystery", "love", "space", "sport", "thriller", "war", "western"),
)
ORGANS = (
    *(
        "cardiac",
        "vascular",
        "nerve",
        "mind",
        "eye",
        "ear",
        "lung",
        "gut",
        "liver",
        "kidney",
        "skin",
        "muscle",
    ),
    *("blood", "immune", "gland", "food", "germ", "tumour", "injury", "test", "general", "breast", "birth"),
    *("gene", "surgery", "social"),
)
TOPICS = (
    *("politics", "history", "sports", "film", "music", "books", "science", "places", "business"),
    *("religion", "other"),
)
AREAS = (
    *("constitution", "criminal", "procedure", "rights", "contracts", "torts", "property", "agencies"),
    *("work", "patents", "tax", "family", "migration", "bankruptcy", "antitrust"),
)

R, RA = "reviews r", "reviews r, aspects a"
P, PT = "reports p", "reports p, terms t"
C, CE = "claims c", "claims c, evidence e"
L, LG = "citations l", "citations l, passages g"
PAIR, CLAIM, CITED = ("r.body", "a.name"), ("c.body", "e.body"), ("l.body", "g.body")
REVIEWS = "reviews r1, aspects a1, reviews r2, aspects a2"
REVIEW_CHAIN = (j(1, "r1.body", "a1.name"), j(1, "r2.body", "a1.name"), j(2, "r2.body", "a2.name"))
CLAIMS = "claims c1, evidence e1, claims c2, evidence e2"
CLAIM_CHAIN = (j(1, "c1.body", "e1.body"), j(2, "c2.body", "e1.body"), j(1, "c2.body", "e2.body"))
MOOD = c(1, MOODS, "r.body")
CRITICAL = one_of(1, MOODS, "r.body")

IMDB = (
    q("imdb-1", R, f(1, "r.body")),
    q("imdb-2", RA, j(1, *PAIR)),
    q("imdb-3", RA, f(1, "r.body"), j(2, *PAIR)),
    q("imdb-4", RA, f(1, "r.body"), f(2, "r.body"), j(3, *PAIR)),
    q("imdb-5", RA, f(1, "r.body"), f(2, "r.body"), f(3, "r.body"), j(4, *PAIR)),
    q("imdb-6", R, f(1, "r.body"), f(2, "r.body")),
    q("imdb-7", R, f(1, "r.body"), f(2, "r.body"), f(3, "r.body")),
    q("imdb-8", "reviews r, aspects a, aspects a2", j(1, *PAIR), j(2, "r.body", "a2.name")),
    q("imdb-9", REVIEWS, *REVIEW_CHAIN),
    q("imdb-10", REVIEWS, f(3, "r1.body"), *REVIEW_CHAIN),
    q("imdb-11", R, select=f"r.id, {MOOD}"),
    q("imdb-12", R, f(1, "r.body"), select=f"r.id, {c(2, KINDS, 'r.body')}"),
    q("imdb-13", RA, CRITICAL, j(2, *PAIR), select=f"r.id, {MOOD}, a.id"),
    q("imdb-14", R, CRITICAL, select=f"r.id, {MOOD}, {c(2, COMPLAINTS, 'r.body')}"),
    q("imdb-15", RA, CRITICAL, j(2, *PAIR), select=f"r.id, {MOOD}, a.id, {c(3, MOODS, *PAIR)}"),
)

BIO = (
    q("bio-1", P, f(1, "p.body")),
    q("bio-2", PT, j(1, "p.body", "t.name")),
    q("bio-3", PT, f(1, "p.body"), j(2, "p.body", "t.name")),
    q(
        "bio-4",
        "reports p, terms t1, terms t2",
        f(1, "p.body"),
        f(2, "t1.name"),
        j(3, "p.body", "t1.name"),
        f(4, "t2.name"),
        j(3, "p.body", "t2.name"),
    ),
    q("bio-5", "terms t", select=f"t.id, {c(1, ORGANS, 't.name')}"),
    q("bio-6", PT, f(1, "p.body"), one_of(2, ORGANS, "t.name"), j(3, "p.body", "t.name")),
)

FEVER = (
    q("fev-1", C, f(1, "c.body")),
    q("fev-2", CE, j(1, *CLAIM)),
    q("fev-3", CE, f(1, "c.body"), j(2, *CLAIM)),
    q("fev-4", CE, f(1, "c.body"), f(2, "c.body"), j(3, *CLAIM)),
    q("fev-5", CE, f(1, "c.body"), f(2, "e.body"), j(3, *CLAIM)),
    q("fev-6", CE, f(1, "c.body"), f(2, "c.body"), f(3, "e.body"), j(4, *CLAIM)),
    q("fev-7", "claims c, evidence e, evidence e2", j(1, *CLAIM), j(2, "c.body", "e2.body")),
    q("fev-8", CLAIMS, *CLAIM_CHAIN),
    q(
        "fev-9",
        CLAIMS,
        *(f(3, "c1.body"), f(4, "e1.body"), CLAIM_CHAIN[0]),
        *(f(3, "c2.body"), CLAIM_CHAIN[1], f(4, "e2.body"), CLAIM_CHAIN[2]),
    ),
    q("fev-10", CE, "c.topic = e.topic", f(1, "c.body"), f(2, "e.body"), j(3, *CLAIM)),
    q("fev-11", C, one_of(1, TOPICS, "c.body"), select=f"c.id, {c(1, TOPICS, 'c.body')}"),
)

LEPARD = (
    q("lep-1", L, f(1, "l.body")),
    q("lep-2", LG, j(1, *CITED)),
    q("lep-3", LG, f(1, "l.body"), j(2, *CITED)),
    q("lep-4", LG, f(1, "l.body"), f(2, "l.body"), j(3, *CITED)),
    q("lep-5", LG, f(1, "l.body"), f(2, "l.body"), f(3, "g.body"), j(4, *CITED)),
    q("lep-6", LG, one_of(1, AREAS, "l.body"), j(2, *CITED), select=f"l.id, {c(1, AREAS, 'l.body')}, g.id"),
)

PEER = (*IMDB, *BIO, *FEVER, *LEPARD)
