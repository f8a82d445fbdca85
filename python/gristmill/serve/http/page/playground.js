// The playground: asks the service about what was typed and shows the answer.
//
// Whatever came from a text is put into the page as text, never as markup. Positions of the service
// count characters (code points); those of a string here count UTF-16 units, so they are translated.
"use strict";

const byId = (id) => document.getElementById(id);
const WAIT = 120; // Milliseconds after the last key.
const FIRST = 4000; // Tokens shown at first; more on demand, since each is an element.
const ROLES = ["system", "user", "assistant", "tool"];
const EXAMPLE =
  "The miller's daughter carried 1,024 sacks of flour.\n" +
  "水車は小麦を挽く。 Мельница мелет муку. الطاحونة تطحن القمح\n" +
  "def mill(grain: list[str]) -> bytes:\n    return b''.join(g.encode() for g in grain)\n" +
  "👩‍🌾🦙 naïve <|endoftext|>";

const state = { tokenizers: [], limit: FIRST, answer: null, groups: [], chosen: -1, asking: null };

// --- asking

async function ask(path, body, signal) {
  const found = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const answer = await found.json();
  if (!found.ok) throw new Error(answer.error.message);
  return answer;
}

function request(model) {
  if (kind() === "chat") {
    return {
      model,
      messages: messages(),
      add_generation_prompt: byId("generation").checked,
    };
  }
  return {
    model,
    prompt: wellFormed(byId("text").value),
    special: byId("parse").checked ? "parse" : "text",
    add_special_tokens: byId("add").checked,
  };
}

// Half of a surrogate pair is no text; a paste can hold one.
const wellFormed = (text) => (text.toWellFormed ? text.toWellFormed() : text);

const chosenOf = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
const kind = () => chosenOf("kind");

function messages() {
  return [...byId("messages").children].map((item) => ({
    role: item.querySelector("select").value,
    content: wellFormed(item.querySelector("textarea").value),
  }));
}

let timer = 0;
function later() {
  clearTimeout(timer);
  timer = setTimeout(update, WAIT);
}

async function update() {
  clearTimeout(timer);
  state.asking?.abort();
  const asking = (state.asking = new AbortController());
  document.body.dataset.busy = "true";
  const model = byId("tokenizer").value;
  const counts = compare(asking.signal);
  try {
    if (!takesInput(model)) throw new Error(`${model} has no chat template.`);
    const answer = await ask("inspect", { ...request(model), limit: state.limit }, asking.signal);
    show(answer);
    problem(null);
  } catch (error) {
    if (error.name === "AbortError") return;
    show(null);
    problem(error.message);
  }
  await counts;
  if (!asking.signal.aborted) document.body.dataset.busy = "false";
}

const takesInput = (name) =>
  kind() === "text" ||
  state.tokenizers.some((one) => one.name === name && one.has_chat_template);

async function compare(signal) {
  const found = await Promise.all(
    state.tokenizers.map(({ name }) =>
      takesInput(name)
        ? ask("count", request(name), signal).then(
            (answer) => answer.count,
            () => null,
          )
        : null,
    ),
  );
  if (signal.aborted) return;
  const most = Math.max(1, ...found.map((count) => count ?? 0));
  [...byId("counts").rows].forEach((row, at) => {
    const [button, count, bar] = [row.querySelector("button"), row.cells[2], row.querySelector(".bar")];
    count.textContent = found[at] === null ? "–" : found[at].toLocaleString("en");
    count.title = found[at] === null ? "It cannot encode this input" : "";
    bar.style.width = `${(100 * (found[at] ?? 0)) / most}%`;
    button.setAttribute("aria-pressed", String(button.textContent === byId("tokenizer").value));
  });
}

function problem(message) {
  byId("problem").hidden = message === null;
  byId("problem").textContent = message ?? "";
}

// --- showing

function show(answer) {
  state.answer = answer;
  state.chosen = -1;
  state.groups = answer ? grouped(answer) : [];
  const number = (value) => value.toLocaleString("en");
  byId("count").textContent = answer ? number(answer.count) : "–";
  byId("characters").textContent = answer ? number(answer.characters) : "–";
  byId("bytes").textContent = answer ? number(answer.bytes) : "–";
  byId("ratio").textContent = answer?.count ? (answer.bytes / answer.count).toFixed(2) : "–";
  byId("status").textContent = answer ? `${number(answer.count)} tokens` : "";
  const left = answer ? answer.count - answer.tokens.length : 0;
  byId("more-line").hidden = left <= 0;
  byId("more-text").textContent = answer
    ? `The first ${number(answer.tokens.length)} tokens are shown, ${number(left)} are not.`
    : "";
  view();
}

// Tokens that hold parts of one character belong together: [first, end, start, stop], the last two
// in UTF-16 units.
function grouped({ text, tokens, offsets }) {
  const groups = [];
  let unit = 0;
  let character = 0;
  const unitOf = (wanted) => {
    while (character < wanted) {
      unit += text.codePointAt(unit) > 0xffff ? 2 : 1;
      character += 1;
    }
    return unit;
  };
  let reached = 0;
  tokens.forEach((_, at) => {
    const [start, end] = offsets[at];
    const last = groups.at(-1);
    if (last && start < end && start < reached && last.stop > last.start) {
      last.end = at + 1;
      if (end > reached) last.stop = unitOf((reached = end));
      return;
    }
    if (start < reached) {
      groups.push({ first: at, end: at + 1, start: unit, stop: unit });
      return;
    }
    const from = unitOf(start);
    reached = end;
    groups.push({ first: at, end: at + 1, start: from, stop: unitOf(end) });
  });
  return groups;
}

function view() {
  const wanted = chosenOf("view");
  byId("tokens").hidden = wanted !== "text";
  byId("ids").hidden = wanted !== "ids";
  byId("table").hidden = wanted !== "table";
  details(-1);
  const answer = state.answer;
  byId("tokens").replaceChildren(...(wanted === "text" && answer ? cells(answer) : []));
  byId("id-list").textContent = wanted === "ids" && answer ? JSON.stringify(answer.tokens) : "";
  byId("rows").replaceChildren(...(wanted === "table" && answer ? rows(answer) : []));
}

function cells(answer) {
  const found = [];
  let reached = 0;
  state.groups.forEach((group, at) => {
    if (group.start > reached) {
      const gap = element("span", "gap");
      gap.title = "No token holds this";
      gap.append(...visible(answer.text.slice(reached, group.start)));
      found.push(gap);
    }
    reached = Math.max(reached, group.stop);
    const special = answer.special[group.first];
    const cell = element("span", special ? "special" : `c${at % 6}`);
    cell.id = `t${at}`;
    cell.dataset.at = at;
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-selected", "false");
    cell.setAttribute("aria-label", spoken(answer, group));
    const text = answer.text.slice(group.start, group.stop);
    cell.append(...visible(text || answer.token_strs[group.first]));
    if (group.end - group.first > 1) {
      const many = element("span", "many");
      many.textContent = group.end - group.first;
      cell.append(many);
    }
    found.push(cell);
  });
  if (answer.tokens.length === answer.count && reached < answer.text.length && found.length) {
    const gap = element("span", "gap");
    gap.append(...visible(answer.text.slice(reached)));
    found.push(gap);
  }
  return found;
}

// Text with marks for what could not be seen, or would move what is around it.
const HIDDEN =
  /[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;
const JOINERS = /^[\u200c\u200d\ufe00-\ufe0f]+$/;

function visible(text) {
  if (JOINERS.test(text)) return [...text].map((char) => mark(codeOf(char)));
  const found = [];
  let from = 0;
  for (const { 0: char, index } of text.matchAll(HIDDEN)) {
    if (index > from) found.push(text.slice(from, index));
    from = index + char.length;
    if (char === "\n") found.push(mark("↵"), "\n");
    else if (char === "\t") found.push(mark("→"), "\t");
    else found.push(mark(codeOf(char)));
  }
  if (from < text.length) found.push(text.slice(from));
  return found;
}

function mark(label) {
  const found = element("span", "mark");
  found.textContent = label;
  return found;
}

function codeOf(char) {
  const code = char.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return code === 0x7f ? "␡" : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}

function element(name, className) {
  const found = document.createElement(name);
  if (className) found.className = className;
  return found;
}

const bytesOf = (hex) => hex.toUpperCase().match(/../g)?.join(" ") ?? "none";

function rows(answer) {
  return answer.tokens.map((id, at) => {
    const row = element("tr");
    const [start, end] = answer.offsets[at];
    const place = start === end ? "–" : `${start}–${end}`;
    const token = element("td", "text");
    token.append(...visible(answer.token_strs[at]));
    const bytes = element("td", "text");
    bytes.textContent = bytesOf(answer.token_bytes[at]);
    row.append(plainCell(at), plainCell(id), token, bytes, plainCell(place));
    return row;
  });
}

function plainCell(text) {
  const cell = element("td");
  cell.textContent = text;
  return cell;
}

function spoken(answer, group) {
  const ids = answer.tokens.slice(group.first, group.end).join(", ");
  const text = answer.text.slice(group.start, group.stop) || answer.token_strs[group.first];
  const name = text.trim() ? text : [...text].map(codeOf).join(" ");
  return `${name}, ${group.end - group.first > 1 ? "ids" : "id"} ${ids}`;
}

// --- one token

function details(at) {
  const list = byId("tokens");
  list.querySelector(".chosen")?.setAttribute("aria-selected", "false");
  list.querySelector(".chosen")?.classList.remove("chosen");
  state.chosen = at;
  const group = state.groups[at];
  if (!group) {
    list.removeAttribute("aria-activedescendant");
    const hint = element("p", "quiet");
    hint.textContent = "Point at a token, or move to one with the arrow keys.";
    byId("details").replaceChildren(hint);
    return;
  }
  const cell = byId(`t${at}`);
  if (cell) {
    cell.classList.add("chosen");
    cell.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", cell.id);
  }
  const { tokens, token_strs, token_bytes, offsets, special } = state.answer;
  const lines = [];
  for (let token = group.first; token < Math.min(group.end, group.first + 12); token += 1) {
    const line = element("p");
    const name = element("code");
    name.append(...visible(token_strs[token]));
    const id = element("b");
    id.textContent = tokens[token];
    const [start, end] = offsets[token];
    const place = start === end ? "no characters" : `characters ${start} to ${end}`;
    const kind = special[token] ? ", special" : "";
    line.append("Id ", id, "  ", name, `  bytes ${bytesOf(token_bytes[token])}, ${place}${kind}`);
    lines.push(line);
  }
  byId("details").replaceChildren(...lines);
}

function move(event) {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 20, PageUp: -20 };
  const last = state.groups.length - 1;
  let at = state.chosen;
  if (event.key in steps) at = Math.min(last, Math.max(0, at + steps[event.key]));
  else if (event.key === "Home") at = 0;
  else if (event.key === "End") at = last;
  else if (event.key === "Escape") at = -1;
  else return;
  event.preventDefault();
  details(at);
  byId(`t${at}`)?.scrollIntoView({ block: "nearest" });
}

// --- chats

function addMessage(role, content) {
  const item = element("li");
  const select = element("select");
  select.setAttribute("aria-label", "Role");
  for (const name of ROLES) select.add(new Option(name, name, false, name === role));
  const remove = element("button");
  remove.type = "button";
  remove.textContent = "Remove";
  remove.addEventListener("click", () => {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    (next?.querySelector("textarea") ?? byId("add-message")).focus();
    update();
  });
  const area = element("textarea");
  area.rows = 3;
  area.dir = "auto";
  area.value = content;
  area.setAttribute("aria-label", "Content");
  const head = element("div", "row");
  head.append(select, remove);
  item.append(head, area);
  byId("messages").append(item);
  return area;
}

// --- the page

const THEMES = ["auto", "light", "dark"];
function theme(name) {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = name === "auto" ? system : name;
  byId("theme").textContent = `Theme: ${name}`;
  byId("theme").setAttribute(
    "aria-label",
    `Colour theme: ${name === "auto" ? "as the system has it" : name}`,
  );
  remember("theme", name);
}

// Storage may be forbidden; then nothing is remembered.
function remember(name, value) {
  try {
    localStorage.setItem(`gristmill.${name}`, value);
  } catch {}
}
function remembered(name) {
  try {
    return localStorage.getItem(`gristmill.${name}`);
  } catch {
    return null;
  }
}

function choose(name) {
  byId("tokenizer").value = name;
  remember("tokenizer", name);
  update();
}

async function begin() {
  theme(THEMES.includes(remembered("theme")) ? remembered("theme") : "auto");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    theme(remembered("theme") ?? "auto"),
  );
  byId("theme").addEventListener("click", () => {
    const now = THEMES.indexOf(remembered("theme") ?? "auto");
    theme(THEMES[(now + 1) % THEMES.length]);
  });
  for (const id of ["parse", "add", "generation"]) byId(id).addEventListener("change", update);
  for (const id of ["text", "messages"]) byId(id).addEventListener("input", later);
  byId("tokenizer").addEventListener("change", (event) => choose(event.target.value));
  for (const input of document.querySelectorAll('input[name="kind"]')) {
    input.addEventListener("change", () => {
      byId("text-input").hidden = kind() !== "text";
      byId("chat-input").hidden = kind() !== "chat";
      update();
    });
  }
  for (const input of document.querySelectorAll('input[name="view"]')) {
    input.addEventListener("change", view);
  }
  byId("add-message").addEventListener("click", () => {
    const last = byId("messages").lastElementChild?.querySelector("select").value;
    addMessage(last === "user" ? "assistant" : "user", "").focus();
    update();
  });
  byId("clear").addEventListener("click", () => {
    byId("text").value = "";
    byId("messages").replaceChildren();
    addMessage("user", "");
    state.limit = FIRST;
    update();
  });
  byId("example").addEventListener("click", () => {
    byId("text").value = EXAMPLE;
    byId("messages").replaceChildren();
    addMessage("system", "Answer in one sentence.");
    addMessage("user", "How does a grist mill work?");
    update();
  });
  byId("more").addEventListener("click", () => {
    state.limit = Math.min(1_000_000, state.limit * 4);
    update();
  });
  byId("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(byId("id-list").textContent);
    byId("status").textContent = "The ids were copied.";
    byId("copy").textContent = "Copied";
    setTimeout(() => (byId("copy").textContent = "Copy the ids"), 2000);
  });
  byId("tokens").addEventListener("keydown", move);
  byId("tokens").addEventListener("pointerover", (event) => {
    const cell = event.target.closest("[data-at]");
    if (cell) details(Number(cell.dataset.at));
  });

  const found = await (await fetch("tokenizers")).json();
  state.tokenizers = found.tokenizers;
  for (const { name, vocab_size } of state.tokenizers) {
    byId("tokenizer").add(new Option(name, name));
    const row = byId("counts").insertRow();
    const button = element("button");
    button.type = "button";
    button.textContent = name;
    button.addEventListener("click", () => choose(name));
    const head = element("th");
    head.scope = "row";
    head.append(button);
    row.append(head, element("td", "number"), element("td", "number"), element("td"));
    row.cells[1].textContent = vocab_size.toLocaleString("en");
    row.cells[3].append(element("span", "bar"));
  }
  if (state.tokenizers.some(({ name }) => name === remembered("tokenizer"))) {
    byId("tokenizer").value = remembered("tokenizer");
  }
  addMessage("user", "");
  byId("text").value ||= EXAMPLE;
  await update();
}

begin().catch((error) => problem(`The service cannot be reached: ${error.message}`));
