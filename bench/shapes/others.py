"""What else analysts ask: joins before filters, keys, stars, chains, semi-joins, groups, values."""

from __future__ import annotations

from shapes.writing import exists, f, j, one_of, q

R, A, RA = "reviews r", "aspects a", "reviews r, aspects a"
P, T, PT = "reports p", "terms t", "reports p, terms t"
CE, LG = "claims c, evidence e", "citations l, passages g"
CHAIN = "reviews r, aspects a, movies m, genres g"
CHAINED = (j(1, "r.body", "a.name"), j(2, "m.body", "a.name"), j(3, "m.body", "g.name"))
SHORTER = "claims c, evidence e, terms t, aspects a"
SHORTENED = (j(1, "c.body", "e.body"), j(2, "e.body", "t.name"), j(3, "t.name", "a.name"))
MOOD = one_of(2, ("bad", "mixed", "good", "none"), "r.body")
ORGAN = one_of(2, ("heart", "lung", "liver", "skin", "bone"), "p.body")

OTHERS = (
    # Pairs, stars and chains
    q("pairs turned", PT, j(1, "t.name", "p.body")),
    q("two questions on pairs", CE, j(1, "c.body", "e.body"), j(2, "c.body", "e.body")),
    q("star of 2", "reviews r, aspects a, genres g", j(1, "r.body", "a.name"), j(2, "r.body", "g.name")),
    q("chain of 4", CHAIN, *CHAINED),
    q("chain of 4, filter", CHAIN, f(4, "r.body"), *CHAINED),
    q("chain, shorter and shorter", SHORTER, *SHORTENED),
    q(
        "chain, filters",
        SHORTER,
        *(f(4, "c.body"), f(5, "e.body"), f(6, "t.name"), f(7, "a.name")),
        *SHORTENED,
    ),
    q(
        "star, filters on two sides",
        "reports p, terms t, aspects a",
        *(f(1, "p.body"), f(2, "p.body"), f(3, "t.name")),
        *(j(4, "p.body", "t.name"), j(5, "p.body", "a.name")),
    ),
    q(
        "filters, partner's twice",
        CE,
        f(1, "c.body"),
        f(2, "e.body"),
        f(3, "e.body"),
        j(4, "c.body", "e.body"),
    ),
    # Labels
    q("label and filter", R, MOOD, f(1, "r.body")),
    q("label and pairs", RA, MOOD, j(1, "r.body", "a.name")),
    q("label of long texts, pairs", PT, ORGAN, j(1, "p.body", "t.name")),
    # Joins before filters, keys, stars
    q("join first", RA, j(1, "a.name", "r.body"), f(2, "r.body")),
    q("join first, two filters", LG, j(1, "l.body", "g.body"), f(2, "l.body"), f(3, "g.body")),
    q(
        "key",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "m.body"),
        j(3, "r.body", "m.body"),
    ),
    q(
        "key chain",
        "reviews r, movies m, genres g",
        "r.movie = m.id",
        "m.genre = g.id",
        f(1, "r.body"),
        f(2, "m.body"),
        f(3, "g.name"),
    ),
    q(
        "key chain, ends",
        "reviews r, movies m, genres g",
        "r.movie = m.id",
        "m.genre = g.id",
        f(1, "m.body"),
        j(2, "r.body", "g.name"),
    ),
    q(
        "key and plain",
        "reviews r, movies m",
        "r.movie = m.id",
        "r.stars > 2",
        f(1, "m.body"),
        f(2, "r.body"),
    ),
    q("copies", "copies k, aspects a", f(1, "k.body"), j(2, "k.body", "a.name")),
    q(
        "star of 3",
        "reports p, terms t, aspects a, genres g",
        j(1, "p.body", "t.name"),
        j(2, "p.body", "a.name"),
        j(3, "p.body", "g.name"),
    ),
    q(
        "star with filters",
        "movies m, terms t, aspects a",
        f(1, "m.body"),
        f(2, "t.name"),
        j(3, "m.body", "t.name"),
        j(4, "m.body", "a.name"),
    ),
    q(
        "other column",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "r.body"),
        f(3, "m.body"),
        f(4, "m.body"),
    ),
    q(
        "interleaved",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "m.body"),
        f(3, "r.body"),
        f(4, "m.body"),
    ),
    q("either", R, f"({f(1, 'r.body')} OR {f(2, 'r.body')} OR {f(3, 'r.body')})"),
    q("either and", R, f"({f(1, 'r.body')} OR {f(2, 'r.body')})", f(3, "r.body"), f"NOT {f(4, 'r.body')}"),
    # Semi-joins
    q("exists", R, exists(1, A, "r.body", "a.name")),
    q("exists turned", R, exists(1, A, "a.name", "r.body")),
    q("filter and exists", R, f(1, "r.body"), exists(2, A, "r.body", "a.name")),
    q("exists and filter", R, exists(1, A, "r.body", "a.name"), f(2, "r.body")),
    q("two exists", P, exists(1, T, "p.body", "t.name"), exists(2, A, "p.body", "a.name")),
    q("not exists", P, f"NOT {exists(1, T, 'p.body', 't.name')}", f(2, "p.body")),
    q("exists by key", "movies m", exists(1, R, "m.body", "r.body", "r.movie = m.id AND "), f(2, "m.body")),
    # Groups and values
    q(
        "groups",
        RA,
        f(1, "r.body"),
        j(2, "r.body", "a.name"),
        select="a.name, count(*)",
        tail="GROUP BY a.name",
    ),
    q(
        "groups by key",
        "reviews r, movies m",
        "r.movie = m.id",
        f(1, "r.body"),
        f(2, "m.body"),
        select="m.id, count(*)",
        tail="GROUP BY m.id",
    ),
    q("value", RA, f(1, "r.body"), f(2, "a.name"), select=f"r.id, a.id, {j(3, 'a.name', 'r.body')}"),
    q(
        "counted answers",
        CE,
        "c.topic = e.topic",
        f(1, "e.body"),
        select=f"{j(2, 'c.body', 'e.body')} AS s, count(*)",
        tail="GROUP BY s",
    ),
)
