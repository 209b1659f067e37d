// pgvector in PGlite: node pgvector.mjs GIVEN.json FOUND.json FOLDER_OF_NODE_MODULES
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

const [, , given, found, folder] = process.argv;
const require = createRequire(resolve(folder, "package.json"));
const { PGlite } = require("@electric-sql/pglite");
const { vector } = require("@electric-sql/pglite-pgvector");

const { ids, vectors, queries, k } = JSON.parse(readFileSync(given));
const dim = vectors[0].length;
const database = await PGlite.create({ extensions: { vector } });
await database.exec(`CREATE EXTENSION vector; CREATE TABLE items (id bigint PRIMARY KEY, embedding vector(${dim}))`);
for (let i = 0; i < ids.length; i++) {
  await database.query("INSERT INTO items VALUES ($1, $2)", [ids[i], JSON.stringify(vectors[i])]);
}

async function searched(operator, type) {
  const by = `embedding::${type} ${operator} $1::${type}`;
  const sql = `SELECT id, ${by} AS distance FROM items ORDER BY ${by} LIMIT ${k}`;
  const answers = [];
  for (const query of queries) answers.push((await database.query(sql, [JSON.stringify(query)])).rows);
  return {
    ids: answers.map((rows) => rows.map((row) => Number(row.id))),
    distances: answers.map((rows) => rows.map((row) => row.distance)),
  };
}

const about = await database.query("SELECT version(), extversion FROM pg_extension WHERE extname = 'vector'");
const software = `${about.rows[0].version.match(/PostgreSQL.*?\)/)[0]}, pgvector ${about.rows[0].extversion}`;
const operators = { cosine: ["<=>", "cosine"], dot: ["<#>", "ip"], euclidean: ["<->", "l2"] };
const results = [];
for (const [metric, [operator, name]] of Object.entries(operators)) {
  const add = async (type, search) =>
    results.push({ metric, vectors: type, search, software, ...(await searched(operator, `${type}(${dim})`)) });
  await add("vector", "exact");
  await add("halfvec", "exact");
  await database.exec(`CREATE INDEX graph ON items USING hnsw ((embedding::vector(${dim})) vector_${name}_ops)`);
  await database.exec("SET enable_seqscan = off");
  for (const visited of [10, 100]) {
    await database.exec(`SET hnsw.ef_search = ${visited}`);
    await add("vector", `hnsw, ef_search ${visited}`);
  }
  await database.exec("DROP INDEX graph; SET enable_seqscan = on");
}
writeFileSync(found, JSON.stringify(results));
process.exit(0);
