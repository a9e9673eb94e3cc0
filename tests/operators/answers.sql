Statements over docs and terms whose answers are probabilities and labels; the oracle runs them as they stand.

-- score
SELECT id, AI_SCORE('Is it long?', body) AS s FROM docs

-- score in WHERE
SELECT id FROM docs WHERE AI_SCORE('Is it long?', body) > 0.6 AND lang = 'de'

-- score under OR and NOT
SELECT id FROM docs WHERE NOT (AI_SCORE('Is it long?', body) < 0.7) OR lang = 'en'

-- score is NULL
SELECT id FROM docs WHERE AI_SCORE('Is it long?', body) IS NULL

-- best five
SELECT id FROM docs ORDER BY AI_SCORE('Is it long?', body) DESC NULLS LAST, id LIMIT 5

-- score of survivors of a filter
SELECT id, AI_SCORE('Is it short?', body) FROM docs WHERE AI_FILTER('Is it long?', body)

-- score and filter of one question
SELECT id, AI_SCORE('Is it long?', body) FROM docs WHERE AI_FILTER('Is it long?', body)

-- scores aggregated
SELECT lang, avg(AI_SCORE('Is it long?', body)), count(*) FILTER (WHERE AI_SCORE('Is it short?', body) > 0.5)
FROM docs GROUP BY lang

-- score through a derived table
SELECT id FROM (SELECT id, AI_SCORE('Is it long?', body) AS s FROM docs) WHERE s BETWEEN 0.2 AND 0.5

-- score in QUALIFY
SELECT id, lang FROM docs QUALIFY row_number() OVER (PARTITION BY lang ORDER BY AI_SCORE('Is it long?', body), id) = 1

-- score guards a question
SELECT id, CASE WHEN AI_SCORE('Is it long?', body) > 0.5 THEN AI_FILTER('Is it short?', body) END FROM docs

-- label
SELECT id, AI_CLASSIFY(body, ['long', 'short', 'it''s other']) AS label FROM docs

-- label in WHERE
SELECT id FROM docs WHERE AI_CLASSIFY(body, ['long', 'short', 'other']) = 'long'

-- label and filter
SELECT id FROM docs WHERE AI_CLASSIFY(body, ['long', 'short', 'other']) <> 'long' AND AI_FILTER('Is it long?', body)

-- label under OR
SELECT id FROM docs WHERE lang = 'de' OR AI_CLASSIFY(body, ['long', 'short', 'other']) IN ('short', 'other')

-- label by its alias in WHERE
SELECT id, AI_CLASSIFY(body, ['long', 'short', 'other']) AS label FROM docs WHERE label = 'short'

-- labels counted
SELECT AI_CLASSIFY(body, ['long', 'short', 'other']) AS label, count(*) FROM docs GROUP BY label

-- labels of groups
SELECT lang, AI_CLASSIFY(lang, ['north', 'south']) FROM docs GROUP BY lang
HAVING AI_CLASSIFY(lang, ['north', 'south']) IS NOT NULL

-- label of the likely
SELECT id, CASE WHEN AI_SCORE('Is it long?', body) > 0.5 THEN AI_CLASSIFY(body, ['a', 'b']) ELSE 'no' END FROM docs

-- two label sets
SELECT id, AI_CLASSIFY(body, ['long', 'short']), AI_CLASSIFY(body, ['short', 'long', 'longer']) FROM docs

-- label in a correlated subquery
SELECT id FROM docs d WHERE EXISTS (
  SELECT 1 FROM terms t WHERE t.id < 2 AND AI_CLASSIFY(d.body, ['long', 'short']) = 'long')

-- label in a union
SELECT id FROM docs WHERE AI_CLASSIFY(body, ['a', 'b']) = 'a'
UNION ALL SELECT id FROM docs WHERE AI_CLASSIFY(body, ['a', 'b']) = 'b'

-- sentiment
SELECT id, AI_SENTIMENT(body) FROM docs WHERE AI_SENTIMENT(body) IN ('positive', 'mixed')

-- nobody
SELECT id, AI_CLASSIFY(body, ['a', 'b']), AI_SCORE('Is it?', body) FROM docs WHERE id < 0

-- label of a number
SELECT id, AI_CLASSIFY(CAST(id AS VARCHAR), ['even', 'odd']) FROM docs WHERE id < 20

-- scores of groups
SELECT lang, AI_SCORE('Is it?', lang), AI_SCORE('Is it?', max(body)) FROM docs GROUP BY lang

-- scores of groups in HAVING and ORDER BY
SELECT lang, count(*) FROM docs GROUP BY lang HAVING AI_SCORE('Is it?', min(body)) > 0.1
ORDER BY AI_SCORE('Is it?', lang)

-- scores of one group
SELECT AI_SCORE('Is it?', max(body)) > 0.5, count(*) FROM docs

-- score of the row outside
SELECT id FROM docs d WHERE EXISTS (SELECT 1 FROM terms t WHERE AI_SCORE('Is it long?', d.body) > 0.5 AND t.id < 2)

-- score in a scalar subquery
SELECT id, (SELECT max(AI_SCORE('Is it?', d.body) + t.id) FROM terms t WHERE t.id < 3) FROM docs d

-- score in a subquery of the SELECT list
SELECT t.id, (SELECT avg(AI_SCORE('Is it?', d.body)) FROM docs d WHERE d.id % 7 = t.id) FROM terms t

-- score beside a positional join
SELECT a.id, AI_SCORE('Is it long?', a.body) FROM docs a POSITIONAL JOIN terms

-- a score guards a score
SELECT id, CASE WHEN AI_SCORE('Is it long?', body) > 0.5 THEN AI_SCORE('Is it short?', body) END FROM docs

-- tokens
SELECT id, AI_COUNT_TOKENS(body), AI_COUNT_TOKENS(upper(body) || lang), AI_COUNT_TOKENS('four') FROM docs

-- tokens in WHERE
SELECT id FROM docs WHERE AI_COUNT_TOKENS(body) BETWEEN 3 AND 17 OR AI_COUNT_TOKENS(lang) = 1 AND id > 10

-- tokens aggregated
SELECT lang, sum(AI_COUNT_TOKENS(body)), max(AI_COUNT_TOKENS(body)) - min(AI_COUNT_TOKENS(body)) FROM docs GROUP BY lang

-- tokens of groups
SELECT lang, AI_COUNT_TOKENS(max(body)) FROM docs GROUP BY lang HAVING AI_COUNT_TOKENS(lang) < 100

-- tokens as a key
SELECT AI_COUNT_TOKENS(body) AS n, count(*) FROM docs GROUP BY n ORDER BY n

-- tokens in windows and QUALIFY
SELECT id, sum(AI_COUNT_TOKENS(body)) OVER (ORDER BY id) FROM docs QUALIFY AI_COUNT_TOKENS(body) > 2

-- tokens beside questions
SELECT id, AI_COUNT_TOKENS(body), AI_SCORE('Is it?', body) FROM docs WHERE AI_FILTER('Is it long?', body)

-- tokens of the row outside
SELECT id FROM docs d WHERE EXISTS (SELECT 1 FROM terms t WHERE AI_COUNT_TOKENS(t.name) < AI_COUNT_TOKENS(d.body))

-- tokens of two relations
SELECT d.id, t.id, AI_COUNT_TOKENS(d.body || t.name) FROM docs d JOIN terms t ON t.id = d.id % 7

-- tokens alone
SELECT AI_COUNT_TOKENS('some words')
