import { cut, fitted, pair } from "./pixels.js";
import { tokens } from "./words.js";

const element = (id) => document.getElementById(id);
const json = async (name) => (await fetch(name)).json();
let latest = 0; // the number of the last image: answers to earlier ones are not shown
let whole = null; // the pixels of the image that is shown
let corner = null; // the first corner of a box that is being drawn
let pictures = new Map(); // the number of the picture of an id

function say(text, wrong = false) {
  element("status").textContent = text;
  element("status").classList.toggle("wrong", wrong);
}

async function decoded(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const canvas = element("picture");
  [canvas.width, canvas.height] = [bitmap.width, bitmap.height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(bitmap, 0, 0);
  canvas.hidden = false;
  element("hint").textContent = "Draw a box on the image to search for what is in it.";
  return (whole = context.getImageData(0, 0, bitmap.width, bitmap.height));
}

function boxTo({ clientX, clientY }) {
  const { left, top, width, height } = element("picture").getBoundingClientRect();
  const share = (distance, length) => Math.min(1, Math.max(0, distance / length));
  const [x, y] = [share(clientX - left, width) * whole.width, share(clientY - top, height) * whole.height];
  corner ??= [x, y];
  return [Math.min(x, corner[0]), Math.min(y, corner[1]), Math.max(x, corner[0]), Math.max(y, corner[1])];
}

function showBox(box) {
  const context = element("picture").getContext("2d");
  context.putImageData(whole, 0, 0);
  [context.strokeStyle, context.lineWidth] = ["#d1495b", Math.max(1, whole.width / 128)];
  if (box !== undefined) context.strokeRect(box[0], box[1], box[2] - box[0], box[3] - box[1]);
}

function cell(content) {
  const entry = document.createElement("td");
  entry.textContent = content;
  return entry;
}

function pictureOf(id) {
  const entry = document.createElement("td");
  if (!pictures.has(id)) return entry;
  entry.append(Object.assign(new Image(), { src: `pictures/${pictures.get(id)}.jpg`, alt: id, loading: "lazy" }));
  return entry;
}

function shown(payload) {
  return Object.entries(JSON.parse(payload)).map(([column, value]) => `${column}: ${value}`).join(", ");
}

function show(answer) {
  const { ids, scores, probabilities, payload, id, embedding } = answer;
  element("neighbors").hidden = ids === undefined;
  if (ids === undefined) return say(`The embedding: ${[...embedding.data].map((x) => x.toFixed(4)).join(", ")}`);
  const rows = [...ids.data].map((name, row) => {
    const line = document.createElement("tr");
    const item = payload === undefined ? "" : shown(payload.data[row]);
    const chance = probabilities === undefined ? "" : `, ${(100 * probabilities.data[row]).toFixed(1)}% the same`;
    if (pictures.size) line.append(pictureOf(String(name)));
    line.append(cell(name), cell(scores.data[row].toFixed(4) + chance), cell(item));
    return line;
  });
  element("neighbors").tBodies[0].replaceChildren(...rows);
  if (id === undefined) say(`${rows.length} neighbors, the nearest first.`);
  else say(id.data[0] === "unknown" ? "Unknown: no item is near enough." : `A match: ${id.data[0]}.`);
}

async function start() {
  if (location.protocol === "file:") return; // what the page says
  const [runtime, preprocessing] = await Promise.all([json("runtime.json"), json("preprocessing.json")]);
  if (runtime.pictures) pictures = new Map((await json("pictures.json")).map((id, number) => [id, number]));
  element("image").hidden = pictures.size === 0;
  const ort = await import(new URL(`${runtime.scripts}ort.wasm.min.mjs`, location));
  ort.env.wasm.wasmPaths = new URL(runtime.scripts, location).href;
  ort.env.wasm.numThreads = 1; // more need a server that isolates the page
  const session = await ort.InferenceSession.create("model.onnx");
  const showLatest = async (name, answer) => {
    const number = ++latest;
    say("Searching…");
    try {
      const found = await answer();
      if (number === latest) show(found);
    } catch (error) {
      if (number === latest) say(`${name}: ${error.message}`, true);
    }
  };
  const search = (name, picture, box) => showLatest(name, async () => {
    const pixels = fitted(cut(await picture, box, preprocessing.margin), preprocessing);
    const shape = [1, ...pair(preprocessing.size), preprocessing.channels];
    return session.run({ images: new ort.Tensor("uint8", pixels, shape) });
  });
  if (runtime.texts) {
    const [tokenizer, texts] = await Promise.all([json("tokenizer.json"), ort.InferenceSession.create("texts.onnx")]);
    const searchWords = (text) => showLatest(`“${text}”`, async () => {
      const numbers = tokens(text, tokenizer);
      if (!numbers.length) throw new Error("no word of it is known.");
      return texts.run({ tokens: new ort.Tensor("int32", Int32Array.from(numbers), [1, numbers.length]) });
    });
    element("text").hidden = false;
    element("text").addEventListener("change", () => element("text").value.trim() && searchWords(element("text").value));
  }
  const open = (files) => files.length && search(files[0].name, decoded(files[0]));
  const endBox = (event) => {
    if (corner === null) return;
    const box = boxTo(event);
    const isClick = box[2] - box[0] < 2 || box[3] - box[1] < 2;
    corner = null;
    showBox(isClick ? undefined : box);
    search("The box", whole, isClick ? undefined : box);
  };
  element("picture").addEventListener("pointerdown", (event) => {
    element("picture").setPointerCapture(event.pointerId);
    boxTo(event);
  });
  element("picture").addEventListener("pointermove", (event) => corner !== null && showBox(boxTo(event)));
  element("picture").addEventListener("pointerup", endBox);
  element("picture").addEventListener("pointercancel", () => ((corner = null), showBox()));
  element("picture").addEventListener("click", (event) => event.preventDefault());
  element("file").addEventListener("change", () => open(element("file").files));
  element("drop").addEventListener("drop", (event) => open(event.dataTransfer.files));
  say("Choose an image to see its neighbors.");
}

for (const name of ["dragover", "drop"]) element("drop").addEventListener(name, (event) => event.preventDefault());
start().catch((error) => say(`The model did not load: ${error.message}`, true));
