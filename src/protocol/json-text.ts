/**
 * Positions inside JSON text that is already known to be valid. Editing the text instead of parsing and
 * printing it again keeps every byte that is not ours: number spelling, member order, white space.
 */
export interface JsonMember {
  key: string;
  start: number;
  valueStart: number;
  /** Just after the value. */
  end: number;
}

export interface JsonElement {
  start: number;
  end: number;
}

export interface TextEdit {
  start: number;
  end: number;
  replacement: string;
}

/** Members of the object that begins at `at`, in order, repeated keys included. */
export function membersOf(json: string, at = 0): JsonMember[] {
  const members: JsonMember[] = [];
  let position = skipSpaces(json, skipSpaces(json, at) + 1);
  while (json[position] === '"') {
    const start = position;
    const keyEnd = stringEnd(json, position);
    const key = textOf(json, start, keyEnd);
    const valueStart = skipSpaces(json, skipSpaces(json, keyEnd) + 1);
    const end = valueEnd(json, valueStart);
    members.push({ key, start, valueStart, end });
    position = skipSeparator(json, end);
  }
  return members;
}

/** Of the string literal between these positions. */
function textOf(json: string, start: number, end: number): string {
  const text = json.slice(start + 1, end - 1);
  return text.includes("\\") ? (JSON.parse(json.slice(start, end)) as string) : text;
}

/** Elements of the array that begins at `at`. */
export function elementsOf(json: string, at = 0): JsonElement[] {
  const elements: JsonElement[] = [];
  let position = skipSpaces(json, skipSpaces(json, at) + 1);
  while (position < json.length && json[position] !== "]") {
    const end = valueEnd(json, position);
    elements.push({ start: position, end });
    position = skipSeparator(json, end);
  }
  return elements;
}

/** Takes members out together with the comma that belonged to them. */
export function removalEdits(members: JsonMember[], remove: (member: JsonMember) => boolean): TextEdit[] {
  const edits: TextEdit[] = [];
  let previousKept: JsonMember | undefined;
  members.forEach((member, index) => {
    if (!remove(member)) {
      previousKept = member;
      return;
    }
    const next = members[index + 1];
    if (previousKept !== undefined) {
      edits.push({ start: members[index - 1]?.end ?? member.start, end: member.end, replacement: "" });
    } else {
      edits.push({ start: member.start, end: next?.start ?? member.end, replacement: "" });
    }
  });
  return edits;
}

/** Edits must not overlap; their order does not matter. */
export function applyEdits(text: string, edits: TextEdit[]): string {
  if (edits.length === 0) return text;
  let result = "";
  let position = 0;
  for (const edit of edits.toSorted((one, other) => one.start - other.start)) {
    result += text.slice(position, edit.start) + edit.replacement;
    position = edit.end;
  }
  return result + text.slice(position);
}

/** Members by their key, each value as JSON text. */
export interface MemberTexts {
  [key: string]: string;
}

/** The object with these members set; whatever had those keys before is gone. */
export function withMembers(json: string, values: MemberTexts): string {
  const members = membersOf(json);
  const isReplaced = ({ key }: JsonMember) => Object.hasOwn(values, key);
  const kept = applyEdits(json, removalEdits(members, isReplaced));
  return append(kept, values, members.every(isReplaced));
}

/** The object, which is not empty, with these members, none of which it has. */
export function withNewMembers(json: string, values: MemberTexts): string {
  return append(json, values, false);
}

function append(json: string, values: MemberTexts, isEmpty: boolean): string {
  let added = "";
  let comma = isEmpty ? "" : ",";
  for (const key in values) {
    added += `${comma}${quoted(key)}:${values[key]}`;
    comma = ",";
  }
  if (added === "") return json;
  const close = json.lastIndexOf("}");
  return json.slice(0, close) + added + json.slice(close);
}

/** The same few keys again and again. */
const quotedKeys = new Map<string, string>();
const maxQuotedKeys = 1_000;

function quoted(key: string): string {
  let text = quotedKeys.get(key);
  if (text === undefined) {
    text = JSON.stringify(key);
    if (quotedKeys.size < maxQuotedKeys) quotedKeys.set(key, text);
  }
  return text;
}

/** Position just after the string that begins at `at`. */
export function stringEnd(json: string, at: number): number {
  let quote = json.indexOf('"', at + 1);
  while (quote !== -1 && isEscaped(json, quote)) quote = json.indexOf('"', quote + 1);
  return quote === -1 ? json.length : quote + 1;
}

function isEscaped(json: string, quote: number): boolean {
  let backslashes = 0;
  while (json[quote - 1 - backslashes] === "\\") backslashes += 1;
  return backslashes % 2 === 1;
}

function skipSpaces(json: string, at: number): number {
  let position = at;
  while (isSpace(json.charCodeAt(position))) position += 1;
  return position;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function skipSeparator(json: string, at: number): number {
  const position = skipSpaces(json, at);
  return json[position] === "," ? skipSpaces(json, position + 1) : position;
}

function valueEnd(json: string, at: number): number {
  switch (json[at]) {
    case '"':
      return stringEnd(json, at);
    case "{":
    case "[":
      return containerEnd(json, at);
  }
  return scalarEnd(json, at);
}

function scalarEnd(json: string, at: number): number {
  let position = at;
  while (position < json.length && !endsScalar(json.charCodeAt(position))) position += 1;
  return position;
}

function endsScalar(code: number): boolean {
  return code === 0x2c || code === 0x5d || code === 0x7d || isSpace(code);
}

const flat = /[^"[\]{}]*/y;

/** Position of the next quote or bracket. */
function skipFlat(json: string, at: number): number {
  flat.lastIndex = at;
  return flat.test(json) ? flat.lastIndex : at;
}

function containerEnd(json: string, at: number): number {
  let depth = 0;
  let position = at;
  while (position < json.length) {
    const character = json[position];
    if (character === '"') {
      position = skipFlat(json, stringEnd(json, position));
      continue;
    }
    depth += character === "{" || character === "[" ? 1 : -1;
    if (depth === 0) return position + 1;
    position = skipFlat(json, position + 1);
  }
  return position;
}
