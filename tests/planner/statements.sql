-- Statements with AI calls, one a paragraph; the plan's rows must equal those of plain DuckDB with a function.

-- filters

SELECT id FROM tickets WHERE AI_FILTER('Is it spam?', body)

SELECT id FROM tickets WHERE NOT AI_FILTER('Is it spam?', body)

SELECT * FROM tickets t WHERE AI_FILTER(PROMPT('{0} is angry', t.body)) AND id > 10

SELECT count(*), count(body) FROM tickets WHERE AI_FILTER('a?', body) AND AI_FILTER('b?', body)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) OR AI_FILTER('b?', body)

SELECT id FROM tickets WHERE NOT (AI_FILTER('a?', body) OR AI_FILTER('b?', body)) OR score > 1

SELECT id FROM tickets WHERE NOT (AI_FILTER('a?', body) AND NOT AI_FILTER('b?', note))

SELECT id FROM tickets WHERE (AI_FILTER('a?', body) AND AI_FILTER('b?', body)) OR (AI_FILTER('c?',
body) AND AI_FILTER('b?', body)) OR (NOT AI_FILTER('a?', body) AND NOT AI_FILTER('c?', body))

SELECT id FROM tickets WHERE score > 1 OR AI_FILTER('a?', note) OR product = 3

SELECT id FROM tickets WHERE AI_FILTER('a?', body) = TRUE AND AI_FILTER('b?', body) = FALSE

SELECT id FROM tickets WHERE AI_FILTER('a?', body) IS NOT TRUE AND AI_FILTER('b?', body) IS TRUE

SELECT id FROM tickets WHERE NOT (AI_FILTER('a?', body) IS TRUE)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) IS NULL

SELECT id FROM tickets WHERE AI_FILTER('a?', body) = (score > 1)

SELECT id FROM tickets WHERE coalesce(AI_FILTER('a?', body), true) AND product IS NOT NULL

SELECT id FROM tickets WHERE CASE WHEN id < 9 THEN AI_FILTER('a?', body) WHEN AI_FILTER('b?', body)
THEN id > 20 ELSE AI_FILTER('c?', note) END

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{0} fits {1}', body, note))

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{1} fits {0} and {1}', body, product)) AND product >
1

SELECT id FROM tickets WHERE AI_FILTER('a?', upper(body) || coalesce(note, '-'))

SELECT id FROM tickets WHERE AI_FILTER('a?', folded) AND AI_FILTER('b?', score)

SELECT id FROM tickets WHERE AI_FILTER('a?', day) AND day BETWEEN DATE '2024-01-02' AND DATE
'2024-01-08'

SELECT id FROM tickets WHERE AI_FILTER('a?', 'constant text') OR id = 3

SELECT id FROM tickets WHERE AI_FILTER('a?', NULL) IS NULL AND id < 3

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{{curly}} {0}', body))

SELECT id FROM main.tickets WHERE AI_FILTER('a?', tickets.body) AND product IN (SELECT id FROM
products WHERE cat = 'a')

SELECT id FROM tickets t WHERE AI_FILTER('a?', body) AND EXISTS (SELECT 1 FROM defects d WHERE
d.product = t.product)

SELECT id FROM tickets t WHERE AI_FILTER('a?', body) AND product IN (SELECT p.id FROM products p
WHERE p.id = product)

SELECT id FROM empty_table WHERE AI_FILTER('a?', body) AND NOT AI_FILTER('b?', body)

SELECT ticket FROM open_tickets WHERE AI_FILTER('a?', words)

SELECT "select" FROM "odd table" WHERE AI_FILTER('a?', "the text") AND AI_FILTER('b?', k0) AND
answer

FROM tickets WHERE AI_FILTER('a?', body)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND 1 = 0

SELECT rowid FROM tickets WHERE AI_FILTER('a?', body)

SELECT a FROM tickets AS t(a, b, c) WHERE AI_FILTER('a?', b) AND a > 3

-- joins

SELECT t.id, p.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is about {1}', t.body,
p.description))

SELECT * FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{1} is about {0}', t.body,
p.description)) AND t.id > 20

SELECT t.id, p.id FROM tickets t, products p WHERE AI_FILTER(PROMPT('{0} is about {1}', t.body,
p.description)) AND AI_FILTER('a?', t.body)

SELECT t.id, p.id FROM tickets t JOIN products p ON t.product = p.id AND AI_FILTER(PROMPT('{0} is
about {1}', t.body, p.description)) WHERE AI_FILTER('a?', p.name)

SELECT t.id, d.id FROM tickets t JOIN defects d USING (product) WHERE AI_FILTER(PROMPT('{0} is {1}',
body, title)) AND product > 1

SELECT * FROM tickets t JOIN defects d USING (product) WHERE AI_FILTER(PROMPT('{0} is {1}', body,
title))

SELECT t.id, p.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body,
p.description)) AND NOT AI_FILTER(PROMPT('{0} was {1}', t.body, p.description))

SELECT t.id, p.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body,
p.description)) AND AI_FILTER(PROMPT('{0} was {1}', t.body, p.description))

SELECT t.id, p.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body,
p.description)) OR t.product = p.id WHERE t.id < 12

SELECT t.id, p.id FROM tickets t JOIN products p ON AI_FILTER('a?', t.body) OR AI_FILTER(PROMPT('{0}
is {1}', t.body, p.description)) WHERE t.id < 12

SELECT t.id, p.id, d.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body,
p.description)) JOIN defects d ON AI_FILTER(PROMPT('{0} has {1}', p.description, d.title)) WHERE
t.id < 8

SELECT t.id, p.id, d.id FROM tickets t, products p, defects d WHERE d.product = p.id AND t.id < 8
AND AI_FILTER(PROMPT('{0} {1} {2}', t.body, p.description, d.title))

SELECT a.id, b.id FROM tickets a JOIN tickets b ON a.id < b.id AND AI_FILTER(PROMPT('{0} like {1}',
a.body, b.body)) WHERE a.product = b.product

SELECT t.id, p.id FROM tickets t CROSS JOIN products p WHERE AI_FILTER('a?', t.body || p.name) AND
t.id < 9

SELECT t.id, d.id FROM tickets t LEFT JOIN defects d ON d.product = t.product WHERE AI_FILTER('a?',
t.body)

SELECT t.id, d.id FROM tickets t LEFT JOIN defects d ON d.product = t.product WHERE AI_FILTER('a?',
d.title) IS NOT TRUE

SELECT t.id, d.id, p.id FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0} is {1}', t.body,
p.description)) LEFT JOIN defects d ON d.product = t.product AND d.id > 2

SELECT t.id, p.id FROM tickets t LEFT JOIN products p ON p.id = t.product, defects d WHERE d.id =
t.id AND AI_FILTER(PROMPT('{0} is {1}', t.body, d.title))

SELECT t.id FROM tickets t SEMI JOIN products p ON p.id = t.product AND p.cat = 'a' WHERE
AI_FILTER('a?', body)

SELECT t.id FROM tickets t ANTI JOIN products p ON p.id = t.product WHERE AI_FILTER('a?', body)

SELECT t.id, p.id FROM tickets t FULL JOIN products p ON p.id = t.product WHERE AI_FILTER('a?',
body)

SELECT id, p.name FROM tickets t FULL JOIN products p USING (id) WHERE AI_FILTER('a?',
coalesce(body, name))

SELECT t.id, u.tag FROM tickets t, UNNEST(t.tags) AS u(tag) WHERE AI_FILTER('a?', u.tag) AND t.id >
4

SELECT t.id, p.name FROM tickets t NATURAL JOIN products p WHERE AI_FILTER('a?', name)

SELECT t.id FROM tickets t JOIN (SELECT id, name FROM products WHERE id > 1) p ON
AI_FILTER(PROMPT('{0}: {1}', body, name))

SELECT * EXCLUDE (body), p.* FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0}: {1}', body,
name)) WHERE t.id < 4

SELECT COLUMNS(t.*) FROM tickets t JOIN products p ON AI_FILTER(PROMPT('{0}: {1}', body, name))
WHERE t.id < 4

-- values

SELECT id, AI_FILTER('a?', body) FROM tickets

SELECT id, AI_FILTER('a?', body) AS flag, NOT flag AS other FROM tickets WHERE flag OR id < 9

SELECT *, AI_FILTER('a?', body) AS flag FROM tickets WHERE AI_FILTER('a?', body)

SELECT id, CASE WHEN score > 1 THEN AI_FILTER('a?', body) WHEN AI_FILTER('b?', body) THEN true END,
count(*) OVER () FROM tickets

SELECT id, AI_FILTER('a?', body) AND AI_FILTER('b?', note), AI_FILTER('a?', body) OR score > 1 FROM
tickets

SELECT AI_FILTER('a?', body) AS flag, count(*) FROM tickets GROUP BY flag

SELECT AI_FILTER('a?', body), count(*) FROM tickets GROUP BY 1

SELECT AI_FILTER('a?', body), count(*) FROM tickets GROUP BY AI_FILTER('a?', body)

SELECT NOT AI_FILTER('a?', body), count(*) FROM tickets GROUP BY AI_FILTER('a?', body)

SELECT AI_FILTER('a?', body), product, count(*) FROM tickets GROUP BY ALL

SELECT product, AI_FILTER('a?', max(body)), count(*) FROM tickets GROUP BY product

SELECT product, count(*) FROM tickets GROUP BY product HAVING AI_FILTER('a?', max(body)) AND
count(*) > 2

SELECT cat, AI_FILTER('a?', cat) FROM products GROUP BY cat HAVING AI_FILTER('b?', cat)

SELECT p.cat, count(*) FILTER (WHERE AI_FILTER('a?', t.body)), sum(CASE WHEN AI_FILTER('b?', t.note)
THEN 1 ELSE 0 END) FROM tickets t JOIN products p ON p.id = t.product GROUP BY p.cat ORDER BY p.cat

SELECT count(*) FILTER (AI_FILTER('a?', body)) FROM tickets

SELECT id FROM tickets ORDER BY AI_FILTER('a?', body), id

SELECT id FROM tickets ORDER BY AI_FILTER('a?', body) DESC NULLS FIRST, id LIMIT 7

SELECT id, body FROM tickets QUALIFY AI_FILTER('a?', body) AND row_number() OVER (PARTITION BY
product ORDER BY id) = 1

SELECT id, row_number() OVER (PARTITION BY AI_FILTER('a?', body) ORDER BY id) FROM tickets

SELECT DISTINCT product, AI_FILTER('a?', body) FROM tickets

SELECT AI_FILTER('a?', 'text'), AI_FILTER('b?', NULL)

SELECT t.id, p.id, AI_FILTER(PROMPT('{0} is {1}', t.body, p.name)) FROM tickets t, products p WHERE
t.id < 5

SELECT cat, count(*) FROM products GROUP BY ROLLUP (cat) HAVING AI_FILTER('a?', cat) IS NOT TRUE

-- subqueries and set operations

WITH bad AS (SELECT id, body FROM tickets WHERE AI_FILTER('a?', body)) SELECT a.id, b.id FROM bad a
JOIN bad b ON a.id = b.id + 1 WHERE AI_FILTER('b?', a.body)

WITH x(n, w) AS (SELECT id, body FROM tickets), y AS (SELECT * FROM x WHERE AI_FILTER('a?', w))
SELECT n FROM y UNION ALL SELECT id FROM products WHERE AI_FILTER('b?', name) ORDER BY 1

SELECT s.id FROM (SELECT id, body, AI_FILTER('a?', body) AS flag FROM tickets ORDER BY id LIMIT 20)
s WHERE s.flag AND AI_FILTER('b?', s.body)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) EXCEPT SELECT id FROM products WHERE
AI_FILTER('b?', name)

SELECT id FROM products p WHERE p.id IN (SELECT product FROM tickets WHERE AI_FILTER('a?', body))

SELECT id FROM products p WHERE EXISTS (SELECT 1 FROM tickets t WHERE t.product = p.id AND
AI_FILTER('a?', t.body))

SELECT id FROM products p WHERE NOT EXISTS (SELECT 1 FROM tickets t WHERE AI_FILTER(PROMPT('{0} is
{1}', t.body, p.description)) AND t.id > 30)

SELECT id FROM products p WHERE EXISTS (SELECT 1 FROM defects d WHERE d.product = p.id AND
AI_FILTER(PROMPT('{0} is {1}', d.title, p.description))) AND AI_FILTER('a?', p.name)

SELECT id, (SELECT count(*) FROM tickets t WHERE t.product = p.id AND AI_FILTER('a?', t.body)) AS n
FROM products p

SELECT id, (SELECT count(*) FROM tickets t WHERE AI_FILTER(PROMPT('{0} is {1}', t.body, p.name)) AND
t.id < 9) FROM products p WHERE AI_FILTER('a?', name)

SELECT id FROM tickets t WHERE AI_FILTER('a?', body) OR EXISTS (SELECT 1 FROM defects d WHERE
d.product = t.product AND AI_FILTER(PROMPT('{0} is {1}', t.body, d.title)))

SELECT id FROM tickets id WHERE id.id IN (SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND
score > 1)

SELECT p.id, x.n FROM products p, (SELECT product, count(*) AS n FROM tickets WHERE AI_FILTER('a?',
body) GROUP BY product) x WHERE x.product = p.id AND AI_FILTER('b?', p.name)

(SELECT id FROM tickets WHERE AI_FILTER('a?', body)) UNION (SELECT id FROM tickets WHERE
AI_FILTER('a?', note))

WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r JOIN
tickets t ON t.id = n WHERE AI_FILTER('a?', body)

-- questions on documents that a filter or another value has asked about already

SELECT id, AI_FILTER('b?', body), AI_FILTER('c?', body) FROM tickets WHERE AI_FILTER('a?', body)

SELECT id, AI_FILTER('b?', body) AS b FROM tickets WHERE AI_FILTER('a?', body) OR NOT AI_FILTER('c?', body)
ORDER BY b, id LIMIT 7

SELECT id, AI_FILTER('b?', body), CASE WHEN score > 1 THEN AI_FILTER('c?', body) END FROM tickets
WHERE NOT AI_FILTER('a?', body) AND id > 2

SELECT AI_FILTER('b?', body) AS b, count(*) FILTER (WHERE AI_FILTER('c?', body)) FROM tickets
WHERE AI_FILTER('a?', body) GROUP BY b ORDER BY b

SELECT id, AI_FILTER('a?', body), AI_FILTER('b?', body), AI_FILTER('c?', note), AI_FILTER('d?', body) FROM tickets

SELECT CASE WHEN AI_FILTER('a?', body) THEN AI_FILTER('b?', body) END, AI_FILTER('c?', body), id FROM tickets

SELECT t.id, p.id, AI_FILTER(PROMPT('{0} suits {1}', t.body, p.description)) FROM tickets t JOIN products p
ON t.product = p.id WHERE AI_FILTER(PROMPT('{0} is {1}', t.body, p.description))

SELECT id, AI_FILTER('b?', body) FROM tickets t WHERE AI_FILTER('a?', body) AND EXISTS
(SELECT 1 FROM defects d WHERE d.product = t.product AND AI_FILTER('b?', t.body))

SELECT id FROM tickets WHERE AI_FILTER('b?', body) AND NOT AI_FILTER('b?', body) AND AI_FILTER('a?', body)

SELECT t.id, p.id FROM tickets t JOIN products p ON t.product = p.id WHERE AI_FILTER('a?', t.body) AND
AI_FILTER('b?', p.name) AND AI_FILTER('c?', t.body) AND AI_FILTER('d?', p.name) AND AI_FILTER('e?', t.note) AND
AI_FILTER('f?', t.body) AND AI_FILTER('g?', t.note)
