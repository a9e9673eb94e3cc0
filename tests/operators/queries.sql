-- Statements whose rows by plan, operators and fake engine equal those of plain DuckDB with the calls as functions.

-- filter
SELECT id, body FROM docs WHERE AI_FILTER(PROMPT('Is {0} long?', body))

-- not
SELECT id FROM docs WHERE NOT AI_FILTER(PROMPT('Is {0} long?', body))

-- two filters
SELECT id FROM docs
WHERE AI_FILTER(PROMPT('Is {0} long?', body))
AND AI_FILTER(PROMPT('Is {0} short?', body))

-- or
SELECT id FROM docs
WHERE AI_FILTER(PROMPT('Is {0} long?', body))
OR AI_FILTER(PROMPT('Is {0} short?', body))

-- or with an ordinary predicate
SELECT id FROM docs WHERE id < 9 OR AI_FILTER(PROMPT('Is {0} long?', body))

-- not of or
SELECT id FROM docs
WHERE NOT (AI_FILTER(PROMPT('Is {0} a?', body))
OR AI_FILTER(PROMPT('Is {0} b?', lang)))

-- ordinary predicates
SELECT id FROM docs WHERE AI_FILTER(PROMPT('Is {0} long?', body)) AND lang = 'de' AND id % 2 = 0

-- two arguments
SELECT id FROM docs WHERE AI_FILTER(PROMPT('Is {0} in {1}?', body, lang))

-- computed
SELECT id FROM docs WHERE AI_FILTER(PROMPT('Is {0} loud?', upper(body) || '!'))

-- cast
SELECT id FROM docs WHERE AI_FILTER(PROMPT('Is {0} odd?', id % 7))

-- join
SELECT d.id, t.id FROM docs d JOIN terms t ON AI_FILTER(PROMPT('Is {0} about {1}?', d.body, t.name))

-- join and equality
SELECT d.id, t.id FROM docs d
JOIN terms t ON d.id % 8 = t.id
AND AI_FILTER(PROMPT('{0} or {1}?', d.body, t.name))

-- join after filters
SELECT d.id, t.id FROM docs d
JOIN terms t
ON AI_FILTER(PROMPT('Is {0} about {1}?', d.body, t.name))
WHERE AI_FILTER(PROMPT('Is {0} long?', d.body))
AND AI_FILTER(PROMPT('Is {0} a colour?', t.name))

-- join of computed texts
SELECT d.id, t.id FROM docs d, terms t
WHERE AI_FILTER(PROMPT('Is {0} about {1}?', lower(d.body), t.name || '.')) AND d.id < 20

-- group by
SELECT lang, count(*), max(id) FROM docs WHERE AI_FILTER(PROMPT('Is {0} long?', body)) GROUP BY lang

-- order and limit
SELECT max(id) FROM (SELECT id FROM docs
WHERE AI_FILTER(PROMPT('Is {0} long?', body)) ORDER BY id LIMIT 5)

-- cte
WITH long AS (SELECT id, lang FROM docs
WHERE AI_FILTER(PROMPT('Is {0} long?', body)))
SELECT l.id, count(*) FROM long l
JOIN docs d USING (lang)
GROUP BY l.id

-- cte with a call on top
WITH german AS (SELECT id, body AS words FROM docs
WHERE lang = 'de')
SELECT id FROM german
WHERE AI_FILTER(PROMPT('Is {0} long?', words))

-- subquery
SELECT name FROM terms
WHERE id IN (SELECT id FROM docs
WHERE AI_FILTER(PROMPT('Is {0} long?', body)))

-- empty table
SELECT id FROM nothing WHERE AI_FILTER(PROMPT('Is {0} long?', body))

-- join with an empty table
SELECT d.id FROM docs d JOIN nothing n ON AI_FILTER(PROMPT('Is {0} {1}?', d.body, n.body))

-- no survivors
SELECT id FROM docs WHERE id < 0 AND AI_FILTER(PROMPT('Is {0} long?', body))

-- self join
SELECT a.id, b.id FROM docs a
JOIN docs b ON a.id < b.id AND b.id < 12
AND AI_FILTER(PROMPT('Is {0} like {1}?', a.body, b.body))

-- braces
SELECT id FROM docs WHERE AI_FILTER(PROMPT('Is {{0}} in {0}?', body || '{0}'))
