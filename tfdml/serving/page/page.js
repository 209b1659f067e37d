"use strict";

const model = `v1/models/${document.body.dataset.model}`;
const element = (id) => document.getElementById(id);
const HINT = element("hint").textContent;
const NUM_ITEMS = 12;
const SCORES = { cosine: "Cosine", euclidean: "Euclidean distance", dot: "Dot product" };
let query = null; // the instance that is shown: {b64}, {b64, box}, {text} or {id}
let corner = null; // of a box that is being drawn, in pixels of the image
let greeting = []; // the random items that are shown before there is a query
let index = {}; // facts about the index
let focusNext = false; // whether the tile with the focus was replaced
const titles = new Map(); // what was shown of an id
const files = new Map(); // queries of files, by their number in the states of the history
let latest = 0; // the number of the last search: answers to earlier ones are not shown
const KEPT = `tfdml judgements ${document.body.dataset.model}`;
let judgements = {}; // by the name of a query, 1 or 0 by id: they outlive the page

async function answer(address, options) {
  const response = await fetch(address, options);
  const content = JSON.parse((await response.text()).replace(/"id": (-?\d{16,})/g, '"id": "$1"')); // beyond 2^53
  if (!response.ok) throw new Error(content.error);
  return content;
}

function post(action, request) {
  const headers = { "Content-Type": "application/json" };
  return answer(`${model}:${action}`, { method: "POST", headers, body: JSON.stringify(request) });
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
    const request = { instances: [query], k: Number(element("k").value), where: where(), ...(index.learns ? judged() : {}) };
    const { neighbors } = await post("search", request);
    if (number === latest) show(neighbors[0]);
  } catch (error) {
    if (number === latest) {
      focusNext = false;
      showJudged();
      element("neighbors").replaceChildren();
      say(error.message, true);
    }
  }
}

async function greet() {
  const number = ++latest;
  query = null;
  showJudged();
  showQuery(null, HINT);
  showBox();
  element("neighbors").replaceChildren();
  try {
    if (greeting.length === 0) greeting = (await answer(`${model}/items?n=${Math.min(NUM_ITEMS, index.max_neighbors)}`)).items;
    if (number !== latest) return;
    element("items").replaceChildren(...greeting.map(tile));
    say("Choose an image or an item to see its neighbors.");
  } catch (error) {
    if (number === latest) say(error.message, true);
  }
}

function greetWithOthers() {
  greeting = [];
  if (query !== null) history.pushState(null, "", location.pathname);
  greet();
}

function show(neighbors) {
  showJudged();
  element("neighbors").replaceChildren(...neighbors.map(tile));
  const matches = neighbors.filter(({ score }) => isMatch(score)).length;
  const line = text("li", `Below the threshold of ${index.threshold}: no match`);
  line.className = "line";
  if (matches < neighbors.length) element("neighbors").children[matches].before(line);
  if (focusNext) document.querySelector("#neighbors .tile")?.focus({ preventScroll: true });
  focusNext = false;
  const counted = `${neighbors.length} neighbors, the nearest first.`;
  say(!neighbors.length ? "No item passes the filter." : matches ? counted : `No match. ${counted}`);
}

function nameOfQuery() {
  const box = query.box === undefined ? "" : `#${query.box.map(Math.round)}`;
  return encodeURIComponent((query.id ?? query.text ?? element("hint").textContent) + box);
}

function judged() {
  const graded = Object.entries((query && judgements[nameOfQuery()]) ?? {});
  const of = (grade) => graded.filter((entry) => entry[1] === grade).map(([id]) => id);
  return { positive: of(1), negative: of(0) };
}

function judge(id, grade) {
  const graded = (judgements[nameOfQuery()] ??= {});
  if (graded[id] === grade) delete graded[id];
  else graded[id] = grade;
  keepJudgements();
  search();
}

function keepJudgements() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(judgements));
  } catch (error) {
    say(`The judgements are not kept: ${error.message}`, true);
  }
}

function showJudged() {
  const { positive, negative } = judged();
  const all = Object.entries(judgements).flatMap(([name, of]) => Object.entries(of).map(([id, grade]) => [name, 0, encodeURIComponent(id), grade]));
  element("judged").hidden = all.length === 0;
  element("counts").textContent = `${positive.length} yes, ${negative.length} no`;
  element("forget").disabled = positive.length + negative.length === 0;
  const lines = all.map((line) => `${line.join("\t")}\n`).join("");
  element("save").href = `data:text/tab-separated-values;charset=utf-8,${encodeURIComponent(lines)}`;
}

function forget() {
  delete judgements[nameOfQuery()];
  keepJudgements();
  search();
}

function isMatch(score) {
  return judged().positive.length > 0 || index.threshold === null || query?.text !== undefined || score >= index.threshold;
}

function percent(share) {
  return `${(100 * share).toFixed(share > 0.1 && share < 0.95 ? 0 : 1)}%`;
}

function bar(score) {
  const meter = document.createElement("meter");
  meter.value = Math.max(0, score);
  meter.setAttribute("aria-hidden", "true"); // the number is beside it
  return meter;
}

function tile(item) {
  const { id, score, name, metadata } = item;
  const labelColumn = "label" in metadata ? "label" : "class";
  const label = metadata[labelColumn];
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "tile" });
  button.disabled = !index.random_items; // an index inside a model has no items to ask for
  const title = [label, name, `id ${id}`].filter((part) => part !== undefined && part !== null).join(", ");
  titles.set(String(id), title);
  const columns = Object.entries(metadata).filter(([column]) => column !== labelColumn);
  const facts = columns.map(([column, value]) => `${column}: ${plain(value)}`);
  button.title = [title, ...facts].join("\n");
  button.append(text("b", label ?? name ?? id));
  const chance = item.probability === undefined ? "" : `, ${percent(item.probability)} the same`;
  if (score !== undefined) button.append(text("span", score.toFixed(3) + chance));
  if (score !== undefined && index.metric === "cosine") button.append(bar(score));
  button.append(text("span", name ?? `id ${id}`));
  const describe = () => button.lastChild.before(text("span", facts.join(", ")));
  if (index.pictures) button.prepend(picture(id, title, describe));
  else describe();
  button.addEventListener("click", () => {
    focusNext = true;
    history.pushState(null, "", `#id=${encodeURIComponent(id)}`);
    openState();
  });
  const entry = document.createElement("li");
  entry.append(button);
  if (index.explains && score !== undefined && query.text === undefined) entry.append(why(id, title, score));
  if (index.learns && score !== undefined) entry.append(verdicts(id, title));
  return entry;
}

function verdicts(id, title) {
  const group = document.createElement("div");
  const given = judgements[nameOfQuery()]?.[id];
  for (const [grade, word] of [[1, "Yes"], [0, "No"]]) {
    const button = text("button", word);
    Object.assign(button, { type: "button", className: "judge", ariaLabel: `${word}: ${title}`, ariaPressed: String(given === grade) });
    button.addEventListener("click", () => judge(id, grade));
    group.append(button);
  }
  return group;
}

function why(id, title, score) {
  const button = text("button", "Why?");
  Object.assign(button, { type: "button", className: "why", ariaLabel: `Why? ${title}` });
  button.addEventListener("click", () => explain(id, title, score));
  return button;
}

async function explain(id, title, score) {
  const shown = text("div", "Comparing…"); // of this click: what comes late is not seen
  element("pair").replaceChildren(shown);
  element("reason").showModal();
  try {
    const { cosine, pictures } = await post("explain", { instances: [query, { id }] });
    const images = pictures.map((source, place) => Object.assign(new Image(), { src: source, alt: place ? title : "Query" }));
    const heading = text("h2", `${SCORES[index.metric] ?? index.metric} ${score.toFixed(3)}`);
    const sum = `The shares of the places of each image add up to the cosine of the two, ${cosine.toFixed(3)}.`;
    const hint = text("p", `As the model takes them. ${sum} Red places add more than the mean of the image, blue ones less.`);
    shown.replaceChildren(heading, ...images, hint);
  } catch (error) {
    shown.textContent = error.message;
  }
}

function plain(value) {
  return typeof value === "object" ? JSON.stringify(value) : value;
}

function text(kind, content) {
  const found = document.createElement(kind);
  found.textContent = content;
  return found;
}

function picture(id, title, describe) {
  const found = new Image();
  found.alt = title;
  found.loading = "lazy";
  found.addEventListener("load", () => markSmall(found));
  found.addEventListener("error", () => {
    found.remove();
    describe();
  });
  found.src = address(id);
  return found;
}

function markSmall(image) {
  image.classList.toggle("small", Math.max(image.naturalWidth, image.naturalHeight) < 96);
}

function showQuery(source, hint) {
  element("start-title").hidden = query !== null;
  element("picture").hidden = source === null;
  if (source !== null) element("picture").src = source;
  element("hint").textContent = hint;
  element("text").value = query?.text ?? "";
}

function place({ clientX, clientY }) {
  const { left, top, width, height } = element("picture").getBoundingClientRect();
  const { naturalWidth, naturalHeight } = element("picture");
  const share = (distance, length) => Math.min(1, Math.max(0, distance / length));
  return [share(clientX - left, width) * naturalWidth, share(clientY - top, height) * naturalHeight];
}

function boxTo([x, y]) {
  return [Math.min(x, corner[0]), Math.min(y, corner[1]), Math.max(x, corner[0]), Math.max(y, corner[1])];
}

function showBox(box) {
  element("draw").hidden = query?.b64 === undefined;
  element("again").hidden = query === null;
  element("box").hidden = box === undefined;
  if (box === undefined) return;
  const { naturalWidth, naturalHeight } = element("picture");
  const inset = [box[1] / naturalHeight, 1 - box[2] / naturalWidth, 1 - box[3] / naturalHeight, box[0] / naturalWidth];
  element("box").style.inset = inset.map((share) => `${100 * share}%`).join(" ");
}

function beginBox(event) {
  if (query?.b64 === undefined || event.button !== 0) return;
  element("picture").setPointerCapture(event.pointerId);
  corner = place(event);
}

function endBox(event) {
  if (corner === null) return;
  const box = boxTo(place(event));
  corner = null;
  const isClick = box[2] - box[0] < 2 || box[3] - box[1] < 2;
  if (isClick && query.box === undefined) return;
  history.pushState({ file: history.state.file, box: isClick ? undefined : box }, "", location.pathname);
  openState();
}

function ask(instance, source, hint) {
  query = instance;
  showQuery(source, hint);
  showBox(query.box);
  element("items").replaceChildren();
  search();
}

function openFile(file) {
  const reader = new FileReader();
  reader.addEventListener("load", () => {
    const number = `${performance.timeOrigin} ${files.size}`; // of this page: states outlive it
    files.set(number, [{ b64: reader.result.slice(reader.result.indexOf(",") + 1) }, reader.result, file.name]);
    history.pushState({ file: number }, "", location.pathname);
    openState();
  });
  reader.addEventListener("error", () => say(`${file.name} cannot be read.`, true));
  reader.readAsDataURL(file);
}

function address(id) {
  return `${model}/pictures/${encodeURIComponent(id)}`;
}

function openItem(id) {
  ask({ id }, index.pictures ? address(id) : null, titles.get(String(id)) ?? `id ${id}`);
  scrollTo({ top: 0 });
}

function openText() {
  history.pushState(null, "", `#text=${encodeURIComponent(element("text").value)}`);
  openState();
}

function openState() {
  const words = /^#text=(.+)$/.exec(location.hash);
  const item = /^#id=(.+)$/.exec(location.hash);
  const file = files.get(history.state?.file); // none after a reload
  if (item !== null) openItem(decodeURIComponent(item[1]));
  else if (words !== null && index.texts) ask({ text: decodeURIComponent(words[1]) }, null, HINT);
  else if (file !== undefined) ask({ ...file[0], box: history.state.box }, file[1], file[2]);
  else if (index.random_items) greet();
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
  index = await answer(`${model}/index`);
  element("about").textContent = `${index.items.toLocaleString("en")} items, ${index.metric}, dim ${index.dim}`;
  element("k").max = index.max_neighbors;
  element("k").value = Math.min(element("k").value, index.max_neighbors);
  element("words").hidden = !index.texts;
  try {
    judgements = JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    judgements = {}; // a browser that keeps nothing
  }
  element("start").hidden = !index.random_items;
  element("filters").replaceChildren(...Object.entries(index.filters).map(filter));
  openState();
}

element("others").addEventListener("click", greetWithOthers);
element("picture").addEventListener("load", () => {
  markSmall(element("picture"));
  showBox(query?.box);
});
element("picture").addEventListener("pointerdown", beginBox);
element("picture").addEventListener("pointermove", (event) => corner !== null && showBox(boxTo(place(event))));
element("picture").addEventListener("pointerup", endBox);
element("picture").addEventListener("pointercancel", () => ((corner = null), showBox(query?.box)));
element("picture").addEventListener("click", (event) => query?.b64 !== undefined && event.preventDefault());
element("picture").addEventListener("error", () => (element("picture").hidden = true));
element("file").addEventListener("change", () => element("file").files.length && openFile(element("file").files[0]));
element("k").addEventListener("change", search);
element("text").addEventListener("change", openText);
element("forget").addEventListener("click", forget);
element("close").addEventListener("click", () => element("reason").close());
element("query").addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", openState);
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
