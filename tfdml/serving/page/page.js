"use strict";

const model = `v1/models/${document.body.dataset.model}`;
const element = (id) => document.getElementById(id);
let query = null; // the instance that is shown: {b64} or {row}
const titles = new Map(); // what was shown of a row
let latest = 0; // the number of the last search: answers to earlier ones are not shown

async function answer(address, options) {
  const response = await fetch(address, options);
  const content = await response.json();
  if (!response.ok) throw new Error(content.error);
  return content;
}

function say(text, wrong = false) {
  element("status").textContent = text;
  element("status").classList.toggle("wrong", wrong);
}

function where() {
  const chosen = [...document.querySelectorAll("#filters [name]")].filter((input) => input.value !== "");
  return Object.fromEntries(chosen.map((input) => [input.name, input.value]));
}

async function search() {
  if (query === null || !element("query").reportValidity()) return;
  const number = ++latest;
  say("Searching…");
  try {
    const body = JSON.stringify({ instances: [query], k: Number(element("k").value), where: where() });
    const headers = { "Content-Type": "application/json" };
    const { neighbors } = await answer(`${model}:search`, { method: "POST", headers, body });
    if (number === latest) show(neighbors[0]);
  } catch (error) {
    if (number === latest) {
      element("neighbors").replaceChildren();
      say(error.message, true);
    }
  }
}

function show(neighbors) {
  element("neighbors").replaceChildren(...neighbors.map(tile));
  say(neighbors.length ? `${neighbors.length} neighbors, the nearest first.` : "No item passes the filter.");
}

function tile(neighbor) {
  const { id, row, score, name, metadata } = neighbor;
  const { label, ...about } = metadata;
  const button = document.createElement("button");
  button.type = "button";
  button.disabled = row === undefined; // an index inside a model has no rows
  const title = [label, name ?? `id ${id}`].filter((part) => part !== undefined && part !== null).join(", ");
  titles.set(String(row), title);
  button.title = [title, ...Object.entries(about).map(([key, value]) => `${key}: ${plain(value)}`)].join("\n");
  if (element("neighbors").dataset.pictures) button.append(picture(row, name ?? id));
  button.append(text("b", label ?? name ?? id), text("span", score.toFixed(3)), text("span", name ?? `id ${id}`));
  button.addEventListener("click", () => {
    location.hash = `row=${row}`;
  });
  const item = document.createElement("li");
  item.append(button);
  return item;
}

function plain(value) {
  return typeof value === "object" ? JSON.stringify(value) : value;
}

function text(kind, content) {
  const found = document.createElement(kind);
  found.textContent = content;
  return found;
}

function picture(row, name) {
  const found = new Image();
  found.alt = name;
  found.loading = "lazy";
  found.addEventListener("load", () => markSmall(found));
  found.src = `${model}/pictures/${row}`;
  return found;
}

function markSmall(image) {
  image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) < 96);
}

function showQuery(instance, source, hint) {
  query = instance;
  element("picture").hidden = source === null;
  if (source !== null) element("picture").src = source;
  element("hint").textContent = hint;
  search();
}

function openFile(file) {
  const reader = new FileReader();
  reader.addEventListener("load", () => {
    history.pushState(null, "", location.pathname);
    showQuery({ b64: reader.result.slice(reader.result.indexOf(",") + 1) }, reader.result, file.name);
  });
  reader.addEventListener("error", () => say(`${file.name} cannot be read.`, true));
  reader.readAsDataURL(file);
}

function openRow() {
  const row = /^#row=(\d+)$/.exec(location.hash);
  if (row === null) return;
  const pictures = element("neighbors").dataset.pictures;
  const title = titles.get(row[1]) ?? `Row ${row[1]} of the index`;
  showQuery({ row: Number(row[1]) }, pictures ? `${model}/pictures/${row[1]}` : null, title);
  scrollTo({ top: 0 });
}

function filter([name, values]) {
  const label = text("label", name);
  const input = document.createElement(values.length ? "select" : "input");
  input.name = name;
  if (values.length) input.append(new Option("any", ""), ...values.map((value) => new Option(value)));
  else input.placeholder = "any";
  input.addEventListener("change", search);
  label.append(input);
  return label;
}

async function start() {
  const index = await answer(`${model}/index`);
  element("about").textContent = `${index.items.toLocaleString("en")} items, ${index.metric}, dim ${index.dim}`;
  element("k").max = index.max_neighbors;
  element("k").value = Math.min(element("k").value, index.max_neighbors);
  element("neighbors").dataset.pictures = index.pictures ? "yes" : "";
  element("filters").replaceChildren(...Object.entries(index.filters).map(filter));
  openRow();
}

element("picture").addEventListener("load", () => markSmall(element("picture")));
element("picture").addEventListener("error", () => (element("picture").hidden = true));
element("file").addEventListener("change", () => element("file").files.length && openFile(element("file").files[0]));
element("k").addEventListener("change", search);
element("query").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", openRow);
addEventListener("dragover", (event) => {
  event.preventDefault();
  element("drop").classList.add("over");
});
addEventListener("dragleave", () => element("drop").classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  element("drop").classList.remove("over");
  if (event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
});
addEventListener("paste", (event) => event.clipboardData.files.length && openFile(event.clipboardData.files[0]));
start().catch((error) => say(error.message, true));
