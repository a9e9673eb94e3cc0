-- The AI calls as macros of plain DuckDB: an answer is a hash of the question's words and of the documents.
-- support/hash_model.py computes the same hash from the tokens that reach the engine.
-- `list_transform([x], lambda y: …)[1]` gives x a name, so that a macro does not repeat it.

-- Templates. chr(1) and chr(2) stand for literal braces, chr(3) 0 for the placeholder {0}.

CREATE MACRO covey_marked(t) AS replace(
    regexp_replace(regexp_replace(t, '\{\{', chr(1), 'g'), '\{([0-9])\}', chr(3) || '\1', 'g'), '}}', chr(2));

-- The only document of a question is left out where it is merely appended, or put in front.
CREATE MACRO covey_shortened(m) AS CASE
    WHEN regexp_matches(m, '\x03[1-9]') THEN m
    WHEN regexp_matches(m, '(?s)([.?!:]\s*|\n)\x030$')
        THEN regexp_replace(rtrim(regexp_replace(m, '\x030$', ''), E' \t\r\n'), ':$', '')
    WHEN regexp_matches(m, '^\x030([:\n]|\s*\p{Lu})')
        THEN ltrim(regexp_replace(m, '^\x030', ''), E':. \t\r\n')
    ELSE m END;

CREATE MACRO covey_numbered(m) AS
    replace(replace(replace(m, chr(3) || '0', 'document 1'), chr(3) || '1', 'document 2'), chr(3) || '2', 'document 3');

CREATE MACRO covey_spoken(m) AS replace(replace(trim(
    CASE WHEN starts_with(m, chr(3)) THEN 'D' ELSE '' END
        || substr(covey_numbered(m), CASE WHEN starts_with(m, chr(3)) THEN 2 ELSE 1 END),
    E' \t\r\n'), chr(1), '{'), chr(2), '}');

CREATE MACRO covey_question(t) AS list_transform(
    list_transform([covey_marked(t)], lambda m: covey_shortened(m)), lambda m: covey_spoken(m))[1];

-- A question without placeholders, about one document.
CREATE MACRO covey_plain(q) AS regexp_replace(trim(q, E' \t\r\n'), ':$', '');

-- A prompt on its way to a call: chr(30), the template, each document after chr(31). NULL where a document is NULL.

CREATE MACRO prompt
    (t, a) AS chr(30) || t || chr(31) || CAST(a AS VARCHAR),
    (t, a, b) AS chr(30) || t || chr(31) || CAST(a AS VARCHAR) || chr(31) || CAST(b AS VARCHAR),
    (t, a, b, c) AS chr(30) || t || chr(31) || CAST(a AS VARCHAR) || chr(31) || CAST(b AS VARCHAR) || chr(31)
        || CAST(c AS VARCHAR);

CREATE MACRO covey_template(p) AS substr(split_part(p, chr(31), 1), 2);
CREATE MACRO covey_documents(p) AS substr(p, strpos(p, chr(31)));

-- Yes or no. A key is the question in words, then each document after chr(31). Two words of the question choose how
-- often the answer is yes: `seldom` one time in ten, `often` nine times in ten, else one time in two.

CREATE MACRO covey_key(p) AS list_transform([p], lambda x: covey_question(covey_template(x)) || covey_documents(x))[1];
CREATE MACRO covey_plain_key(q, e) AS covey_plain(q) || chr(31) || CAST(e AS VARCHAR);
CREATE MACRO covey_hash(key) AS CAST('0x' || substr(md5(key), 1, 4) AS INTEGER);
CREATE MACRO covey_limit(key) AS CASE
    WHEN contains(split_part(key, chr(31), 1), 'seldom') THEN 6554
    WHEN contains(split_part(key, chr(31), 1), 'often') THEN 58982
    ELSE 32768 END;
CREATE MACRO covey_margin(key) AS
    list_transform([key], lambda k: (covey_limit(k) - covey_hash(k) - 0.5::DOUBLE) / 4096)[1];
CREATE MACRO covey_probability(key) AS 0.5::DOUBLE + 0.5::DOUBLE * tanh(covey_margin(key) / 2);

CREATE MACRO ai_filter
    (p) AS covey_margin(covey_key(p)) > 0,
    (q, e) AS covey_margin(covey_plain_key(q, e)) > 0;
CREATE MACRO ai_score
    (p) AS covey_probability(covey_key(p)),
    (q, e) AS covey_probability(covey_plain_key(q, e));

-- Labels: the one with the greatest hash. Descriptions are part of the question only.

CREATE MACRO covey_names(labels) AS list_transform(
    CAST(to_json(labels) AS JSON[]), lambda x: trim(coalesce(x ->> '$.label', x ->> '$[0]', x ->> '$')));
CREATE MACRO covey_descriptions(labels) AS list_transform(
    CAST(to_json(labels) AS JSON[]), lambda x: trim(coalesce(x ->> '$.description', x ->> '$[1]', '')));
CREATE MACRO covey_choice(names, descriptions, task) AS
    coalesce(nullif(trim(task), ''), 'Which label fits best?') || ' Answer with one of these labels:' || CASE
    WHEN len(list_filter(descriptions, lambda x: x <> '')) = 0 AND len(list_filter(names, lambda x: contains(x, ','))) = 0
        THEN ' ' || array_to_string(names, ', ') || '.'
    ELSE chr(10) || array_to_string(list_transform(list_zip(names, descriptions), lambda x:
        '- ' || x[1] || CASE WHEN x[2] = '' THEN '' ELSE ': ' || x[2] END), chr(10)) END;

CREATE MACRO covey_label_key(v, words) AS CASE
    WHEN starts_with(v, chr(30))
        THEN covey_question(covey_template(v) || chr(10) || replace(replace(words, '{', '{{'), '}', '}}'))
            || covey_documents(v)
    ELSE covey_plain_key(words, v) END;
CREATE MACRO covey_hashes(key, names) AS
    list_transform(names, lambda x: substr(md5(key || chr(31) || x), 1, 6));
CREATE MACRO covey_pick(key, names) AS
    list_transform([covey_hashes(key, names)], lambda h:
        CASE WHEN h[1] IS NOT NULL THEN names[list_position(h, list_max(h))] END)[1];

CREATE MACRO ai_classify(v, categories, task_description := NULL) AS covey_pick(
    covey_label_key(CAST(v AS VARCHAR), covey_choice(
        covey_names(categories), covey_descriptions(categories), task_description)),
    covey_names(categories));
CREATE MACRO ai_sentiment(v) AS covey_pick(
    covey_plain_key('What is the sentiment of the text? Answer with one of these labels: positive, negative, neutral, mixed.', v),
    ['positive', 'negative', 'neutral', 'mixed']);

-- The tokenizer of the hash model makes a token of each byte, but for the words yes and no, true and false.
CREATE MACRO ai_count_tokens(v) AS octet_length(encode(CAST(v AS VARCHAR)));

-- BigQuery's names.

CREATE SCHEMA ai;
CREATE MACRO ai."if" (p) AS ai_filter(p), (q, e) AS ai_filter(q, e);
CREATE MACRO ai.score (p) AS ai_score(p), (q, e) AS ai_score(q, e);
CREATE MACRO ai.classify(v, categories, task_description := NULL) AS ai_classify(v, categories, task_description := task_description);
CREATE MACRO ai.count_tokens(v) AS ai_count_tokens(v);
