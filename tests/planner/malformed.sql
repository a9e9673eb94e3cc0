-- Malformed or unsupported statements, each with its message. One a paragraph.

SELECT id FROM tickets WHERE AI_FILTER('a?', bdy)
-> BindError: no column 'bdy' (there is body) (line 1:46)

SELECT id FROM tickets t
WHERE AI_FILTER('a?', t.bodi)
-> BindError: t has no column 'bodi' (there is body) (line 2:25)

SELECT id FROM tickets t WHERE AI_FILTER('a?', x.body)
-> BindError: no table 'x' in FROM (there is t) (line 1:50)

SELECT id FROM tikets WHERE AI_FILTER('a?', body)
-> BindError: no table 'tikets' (line 1:16)

SELECT id FROM other.tickets WHERE AI_FILTER('a?', body)
-> BindError: no table 'other.tickets' (line 1:22)

SELECT t.id FROM tickets t, products p WHERE AI_FILTER('a?', id)
-> BindError: column 'id' is ambiguous: t and p both have it (line 1:62)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{0} and {1}', body))
-> BindError: placeholder {1} has no argument: 1 argument is given (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('is it {0}', body, note))
-> BindError: argument 1 is not used: the template has no {1} (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('is it', body))
-> BindError: the template has no placeholder: write {0} where the value belongs (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('is {it} {0}', body))
-> BindError: template character 4: '{' belongs to no placeholder; write {{ for a literal brace (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('is it} {0}', body))
-> BindError: template character 6: '}' belongs to no placeholder; write }} for a literal brace (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT(note, body))
-> BindError: the template of PROMPT must be a string literal (line 1:47)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('', body))
-> BindError: the template of PROMPT is empty (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT())
-> BindError: PROMPT has no template (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER()
-> BindError: AI_FILTER has no arguments (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER('is it?')
-> BindError: AI_FILTER asks about no value: write AI_FILTER('question', column) (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(body)
-> BindError: the question of AI_FILTER must be a string literal: AI_FILTER('question', column) or AI_FILTER(PROMPT('… {0} …', column)) (line 1:40)

SELECT id FROM tickets WHERE AI_FILTER('  ', body)
-> BindError: the question of AI_FILTER is empty (line 1:40)

SELECT id FROM tickets WHERE AI_FILTER(body, 'is it?')
-> BindError: the question of AI_FILTER must be a string literal: AI_FILTER('question', column) or AI_FILTER(PROMPT('… {0} …', column)) (line 1:40)

SELECT id FROM tickets WHERE AI_FILTER('a?', body, note)
-> BindError: AI_FILTER takes a question and one value; for more, write AI_FILTER(PROMPT('… {0} … {1} …', a, b)) (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{0}?', body), note)
-> BindError: AI_FILTER(PROMPT(…)) takes no further arguments (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER('a?', raw)
-> BindError: argument 0 of AI_FILTER: raw is BLOB, which cannot be asked about as text (line 1:46)

SELECT id FROM tickets WHERE AI_FILTER('a?', tags)
-> BindError: argument 0 of AI_FILTER: tags is VARCHAR[], which cannot be asked about as text (line 1:46)

SELECT id FROM tickets WHERE AI_FILTER('a?', {'a': body})
-> BindError: AI_FILTER has no option 'a' (there is anchor, selectivity) (line 1:52)

SELECT id FROM tickets WHERE AI_FILTER('a?', struct_pack(a := body))
-> BindError: AI_FILTER has no option 'a' (there is anchor, selectivity) (line 1:58)

SELECT id FROM tickets WHERE AI_FILTER('a?', nosuch(body))
-> BindError: argument 0 of AI_FILTER: Scalar Function with name nosuch does not exist! (line 1:46)

SELECT id FROM tickets WHERE AI_FILTER('a?', body || random())
-> Unsupported: random() changes from call to call: in argument 0 of AI_FILTER it is not supported; store its values in a table first (line 1:54)

SELECT id FROM tickets WHERE AI_FILTER('a?', (SELECT max(name) FROM products))
-> Unsupported: a subquery in argument 0 of AI_FILTER is not supported; compute it in a subquery first (line 1:58)

SELECT id FROM tickets WHERE AI_FILTER('a?', CASE WHEN AI_FILTER('b?', body) THEN note END)
-> Unsupported: another AI call in argument 0 of AI_FILTER is not supported; compute it in a subquery first (line 1:56)

SELECT id FROM tickets WHERE AI_FILTER('a?', max(body))
-> BindError: the aggregate MAX(body) stands where rows are not grouped (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER('a?', lag(body) OVER (ORDER BY id))
-> Unsupported: a window function in argument 0 of AI_FILTER is not supported; compute it in a subquery first (line 1:46)

SELECT id FROM tickets WHERE AI_FILTER('a?', body, {'model': 'x'})
-> BindError: AI_FILTER has no option 'model' (there is anchor, selectivity) (line 1:62)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{0}?', body), {'anchor': 'p'})
-> BindError: anchor: 'p' is no relation that AI_FILTER asks about (line 1:73)

SELECT id FROM tickets WHERE AI.IF(connection_id => 'x', prompt => ('a ', body))
-> BindError: AI.IF has no option 'connection_id' (there is anchor, selectivity) (line 1:53)

SELECT id FROM tickets WHERE AI.IF(('a ', 'b'))
-> BindError: AI.IF asks about no value: the tuple has no column (line 1:30)

SELECT id FROM tickets WHERE AI.IF((body, note))
-> BindError: AI.IF asks nothing: the tuple has no text (line 1:30)

SELECT AI_COMPLETE('model', body) FROM tickets
-> Unsupported: AI_COMPLETE generates text, which is not supported by a prefill-only engine; ask yes/no questions with AI_FILTER instead (line 1:8)

SELECT AI_AGG(body, 'summarize') FROM tickets
-> Unsupported: AI_AGG generates text, which is not supported by a prefill-only engine; aggregate the rows that AI_FILTER selects with string_agg or list instead (line 1:8)

SELECT AI.GENERATE_BOOL(('x', body)) FROM tickets
-> Unsupported: AI.GENERATE_BOOL generates text, which is not supported by a prefill-only engine; use AI.IF instead (line 1:8)

SELECT AI_EXTRACT(body, ['a']) FROM tickets
-> Unsupported: AI_EXTRACT generates text, which is not supported by a prefill-only engine; select rows with AI_FILTER and cut the text with regexp_extract instead (line 1:8)

SELECT id FROM tickets ORDER BY AI_SIMILARITY(body, title)
-> Unsupported: AI_SIMILARITY is not supported; use AI_FILTER to select or AI_SCORE to rank instead (line 1:33)

SELECT AI_CLASSIFY(body) FROM tickets
-> BindError: AI_CLASSIFY needs its labels: AI_CLASSIFY(column, ['first', 'second']) (line 1:8)

SELECT AI_CLASSIFY(body, note) FROM tickets
-> BindError: the labels of AI_CLASSIFY must be a list of string literals: ['first', 'second'] (line 1:26)

SELECT AI_CLASSIFY(body, []) FROM tickets
-> BindError: AI_CLASSIFY needs at least two labels to choose from (line 1:8)

SELECT AI_CLASSIFY(body, ['a']) FROM tickets
-> BindError: AI_CLASSIFY needs at least two labels to choose from (line 1:27)

SELECT AI_CLASSIFY(body, ['a', 'b', ' a ']) FROM tickets
-> BindError: label 'a' of AI_CLASSIFY is given twice (line 1:37)

SELECT AI_CLASSIFY(body, ['a', NULL]) FROM tickets
-> BindError: label 2 of AI_CLASSIFY is no string literal (line 1:8)

SELECT AI_CLASSIFY(body, ['a', note]) FROM tickets
-> BindError: label 2 of AI_CLASSIFY is no string literal (line 1:32)

SELECT AI_CLASSIFY(body, ['', 'b']) FROM tickets
-> BindError: label 1 of AI_CLASSIFY is empty (line 1:27)

SELECT AI_CLASSIFY(body, [{'label': 'a', 'colour': 'b'}, 'c']) FROM tickets
-> BindError: label 1 of AI_CLASSIFY must have a label and may have a description, nothing else (line 1:37)

SELECT AI_CLASSIFY(body, note, ['a', 'b']) FROM tickets
-> BindError: AI_CLASSIFY takes one value and its labels; for more values, write AI_CLASSIFY(PROMPT('… {0} … {1} …', a, b), ['first', 'second']) (line 1:8)

SELECT AI_CLASSIFY(body, ['a', 'b'], {'output_mode': 'all'}) FROM tickets
-> BindError: the output_mode of AI_CLASSIFY is 'single' or 'multi' (line 1:54)

SELECT AI.CLASSIFY(body, categories => ['a', 'b'], examples => [('x', 'c')]) FROM tickets
-> BindError: example 1 of AI.CLASSIFY: 'c' is none of its labels (line 1:66)

SELECT AI_CLASSIFY(body, ['a', 'b'], {'task_description': note}) FROM tickets
-> BindError: the task_description of AI_CLASSIFY must be a string literal (line 1:59)

SELECT AI_SENTIMENT(body, ['price']) FROM tickets
-> BindError: AI_SENTIMENT takes one text: AI_SENTIMENT(column) (line 1:8)

SELECT id FROM tickets WHERE AI_CLASSIFY(body, ['a', 'b'])
-> BindError: AI_CLASSIFY gives a label, which is no condition: compare it (line 1:30)

SELECT id FROM tickets WHERE note = 'x' OR NOT AI_SCORE('a?', body)
-> BindError: AI_SCORE gives a number, which is no condition: compare it (line 1:48)

SELECT AI_SCORE(body) FROM tickets
-> BindError: the question of AI_SCORE must be a string literal: AI_SCORE('question', column) or AI_SCORE(PROMPT('… {0} …', column)) (line 1:17)

SELECT t.id FROM tickets t FULL JOIN products p ON AI_FILTER('a?', t.body || p.name)
-> Unsupported: argument 0 of an AI call in ON beside a RIGHT or FULL join reads both sides, or a query around: give each side an argument of its own, or compute it in a subquery of FROM (line 1:52)

SELECT t.id FROM tickets t ASOF JOIN products p ON t.id >= p.id AND AI_FILTER('a?', t.body)
-> Unsupported: an AI call in ON of an ASOF join is not supported: ask in a subquery of FROM (line 1:54)

SELECT id FROM tickets LIMIT CASE WHEN AI_FILTER('a?', 'b') THEN 1 ELSE 2 END
-> Unsupported: an AI call in LIMIT of SELECT is not supported (line 1:40)

COPY (SELECT id FROM tickets WHERE AI_FILTER('a?', body)) TO 'x.csv'
-> Unsupported: COPY with an AI call is not supported; only queries are (line 1:36)

CREATE MACRO f(x) AS AI_FILTER('a?', x)
-> Unsupported: CREATE MACRO with an AI call is not supported; only queries are (line 1:22)

SELECT 1 WHERE AI_FILTER('a?', 'b'); SELECT 2
-> Unsupported: an AI statement stands alone: send one statement at a time (line 1:36)

SELECT id FROM tickets WHERE AI_FILTER('a?', body
-> ParseError: AI_FILTER has no closing parenthesis (line 1:30)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND
-> ParseError: an expression is missing near 'AND' (line 1:52)

SELECT id FROM tickets WHERE AI_FILTER('a?, body)
-> ParseError: a closing ' is missing (line 1:39)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND __covey_a0 = 1
-> BindError: __covey_a0: names that begin with __covey_ are reserved (line 1:56)

SELECT id, nosuch FROM tickets WHERE AI_FILTER('a?', body)
-> BindError: Referenced column "nosuch" not found in FROM clause! (line 1:12)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) AND nosuch = 3
-> BindError: no column 'nosuch' (there is id, body, note, product, day, score, tags, raw) (line 1:56)

SELECT id, nosuch(id) FROM tickets WHERE AI_FILTER('a?', body)
-> BindError: Scalar Function with name nosuch does not exist! (line 1:12)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) GROUP BY product
-> BindError: column "id" must appear in the GROUP BY clause or must be part of an aggregate function. (line 1:8)

SELECT product, AI_FILTER('a?', body) FROM tickets GROUP BY product
-> BindError: column "body" must appear in the GROUP BY clause or must be part of an aggregate function. (line 1:17)

SELECT id FROM tickets, tickets WHERE AI_FILTER('a?', body)
-> BindError: two members of FROM are called 'tickets': give one an alias (line 1:25)

WITH RECURSIVE r AS (SELECT id FROM tickets UNION SELECT id FROM r WHERE AI_FILTER('a?', 'x')) SELECT * FROM r
-> Unsupported: an AI call in the recursive part of a CTE is not supported, as whom it is about depends on its own answers: ask before, WITH RECURSIVE answers AS (SELECT …, AI_FILTER(…) AS answer FROM …), and join them (line 1:74)

SELECT id FROM tickets UNION SELECT id FROM products ORDER BY AI_FILTER('a?', id)
-> Unsupported: an AI call in ORDER of a set operation is not supported: put that into a derived table (line 1:63)

SELECT list_reduce(tags, lambda x, y: CASE WHEN AI_FILTER('a?', y) THEN x ELSE y END) FROM tickets
-> Unsupported: AI_FILTER in the lambda of list_reduce is not supported, as what it asks depends on its own answers: ask about each value before, list_transform(list, lambda x: …), and reduce the answers (line 1:49)

SELECT id FROM range(CASE WHEN AI_FILTER('a?', 'x') THEN 3 END) r(id)
-> Unsupported: an AI call in an argument of a table function is not supported (line 1:32)

EXPLAIN (FORMAT html) SELECT id FROM tickets WHERE AI_FILTER('a?', body)
-> Unsupported: EXPLAIN of an AI statement takes ANALYZE, VERBOSE and FORMAT text or json, not 'FORMAT html'

EXPLAIN (ANALYZE, costs off) SELECT id FROM tickets WHERE AI_FILTER('a?', body)
-> Unsupported: EXPLAIN of an AI statement takes ANALYZE, VERBOSE and FORMAT text or json, not 'costs off'

SELECT id FROM tickets t JOIN products p USING (nosuch) WHERE AI_FILTER('a?', body)
-> BindError: USING: column 'nosuch' is not on both sides (line 1:31)

INSERT INTO products VALUES (1, DEFAULT, AI_FILTER('a?', 'x'))
-> Unsupported: DEFAULT beside an AI call in VALUES is not supported: leave the column out, or write its value (line 1:42)

PIVOT tickets ON product USING count(AI_FILTER('a?', body))
-> Unsupported: an AI call in PIVOT is not supported: write SELECT * FROM (SELECT …, AI_FILTER(…) AS answer FROM …) PIVOT (… FOR answer IN (…)) (line 1:38)

SELECT id FROM tickets WHERE AI_FILTER('a?', *)
-> Unsupported: * in argument 0 of AI_FILTER is not supported; compute it in a subquery first (line 1:46)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('{0}?', bodyy))
-> BindError: no column 'bodyy' (there is body) (line 1:55)

SELECT id FROM tickets TABLESAMPLE 10% WHERE AI_FILTER('a?', body)
-> Unsupported: a random sample in what an AI call reads is not supported: store the rows in a table first (line 1:36)

SELECT id FROM (SELECT id, body || random() AS b FROM tickets) WHERE AI_FILTER('a?', b)
-> Unsupported: random() in what an AI call reads is not supported: store the rows in a table first (line 1:36)

AI_FILTER('a?', 'x')
-> Unsupported: an AI call is no statement of its own: write SELECT before it (line 1:1)

SELECT AI_FILTER('a?', COLUMNS('b.*')) FROM tickets
-> Unsupported: COLUMNS in argument 0 of AI_FILTER is not supported; compute it in a subquery first (line 1:24)

SELECT id FROM tickets WHERE AI_FILTER(PROMPT('is it {٠}', body))
-> BindError: template character 7: '{' belongs to no placeholder; write {{ for a literal brace (line 1:30)

SELECT snowflake.cortex.complete('m', body) FROM tickets
-> Unsupported: CORTEX.COMPLETE generates text, which is not supported by a prefill-only engine; ask yes/no questions with AI_FILTER instead (line 1:8)

SELECT CORTEX.SENTIMENT(body) FROM tickets
-> Unsupported: CORTEX.SENTIMENT is not supported; use AI_SENTIMENT(text) instead (line 1:8)

SELECT AI_QUERY('m', body) FROM tickets
-> Unsupported: AI_QUERY generates text, which is not supported by a prefill-only engine; ask yes/no questions with AI_FILTER instead (line 1:8)

SELECT AI_COUNT_TOKENS('llama', body) FROM tickets
-> BindError: AI_COUNT_TOKENS counts the tokens of one text: AI_COUNT_TOKENS(column) (line 1:8)

SELECT AI_COUNT_TOKENS(raw) FROM tickets
-> BindError: argument 0 of AI_COUNT_TOKENS: raw is BLOB, which cannot be asked about as text (line 1:24)

SELECT id FROM tickets WHERE AI_COUNT_TOKENS(body)
-> BindError: AI_COUNT_TOKENS gives a number, which is no condition: compare it (line 1:30)

SELECT id FROM tickets WHERE main.AI_FILTER('a?', bdy)
-> BindError: no column 'bdy' (there is body) (line 1:51)

SELECT id FROM tickets WHERE AI_FILTER('a?', body, {'selectivity': '1.5'})
-> BindError: selectivity is a number from 0 to 1 (line 1:68)

SELECT AI_CLASSIFY(body, ['a', 'b'], {'examples': [{'text': 'x'}]}) FROM tickets
-> BindError: example 1 of AI_CLASSIFY must be {'input': 'text', 'labels': ['label']} (line 1:61)

SELECT AI_CLASSIFY(body, ['a', 'b'], {'examples': note}) FROM tickets
-> BindError: the examples of AI_CLASSIFY must be a list (line 1:51)

SELECT AI_CLASSIFY(body, tags, {'output_mode': 'multi'}) FROM tickets
-> BindError: the labels of AI_CLASSIFY must be a list of string literals: ['first', 'second'] (line 1:26)

SELECT AI_CLASSIFY(body, (SELECT list(name) FROM products)) FROM tickets
-> BindError: the labels of AI_CLASSIFY must be a list of string literals: ['first', 'second'] (line 1:34)

SELECT COLUMNS(*) FROM tickets t SEMI JOIN products p ON AI_FILTER('a?', t.body) RIGHT JOIN products q ON q.id = t.id
-> Unsupported: COLUMNS(…) over an ON of a SEMI join that asks, before a RIGHT or FULL join, is not supported: name the columns (line 1:58)

SELECT t.id FROM tickets t, products p RIGHT JOIN products q ON AI_FILTER('a?', t.body)
-> Unsupported: an AI call in an ON that reads 't', which stands before a comma, is not supported: join all members of FROM with JOIN (line 1:83)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) ORDER BY id FETCH FIRST 3 ROWS WITH TIES
-> Unsupported: WITH TIES is not supported: write QUALIFY rank() OVER (ORDER BY …) <= n (line 1:83)

SELECT id FROM tickets WHERE AI_FILTER('a?', body) ORDER BY id FETCH NEXT 10 PERCENT ROWS ONLY
-> Unsupported: FETCH … PERCENT is not supported: write LIMIT with a percentage, LIMIT 10% (line 1:78)
