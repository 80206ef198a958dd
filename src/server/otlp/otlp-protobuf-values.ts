import { floatValue, integerValue, maxValueDepth, type OtlpKeyValue, type OtlpValue } from "./otlp-values.ts";
import { ProtobufError, type ProtobufReader } from "./protobuf-reader.ts";

export function readKeyValue(reader: ProtobufReader, depth = 0): OtlpKeyValue {
  let key = "";
  let value: OtlpValue = null;
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) key = reader.text();
    else if (field === 2) value = readValue(reader.message(), depth);
    else reader.skip();
  }
  return [key, value];
}

function readValue(reader: ProtobufReader, depth: number): OtlpValue {
  if (depth > maxValueDepth) throw new ProtobufError(`a value is nested more than ${maxValueDepth} deep`);
  let value: OtlpValue = null;
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) value = reader.text();
    else if (field === 2) value = reader.unsigned() !== 0n;
    else if (field === 3) value = integerValue(reader.signed());
    else if (field === 4) value = floatValue(reader.double());
    else if (field === 5) value = readList(reader.message(), depth + 1);
    else if (field === 6) value = readMap(reader.message(), depth + 1);
    else if (field === 7) value = reader.bytes().toHex();
    else reader.skip();
  }
  return value;
}

function readList(reader: ProtobufReader, depth: number): OtlpValue[] {
  const values: OtlpValue[] = [];
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) values.push(readValue(reader.message(), depth));
    else reader.skip();
  }
  return values;
}

function readMap(reader: ProtobufReader, depth: number): Map<string, OtlpValue> {
  const values = new Map<string, OtlpValue>();
  for (let field = reader.next(); field !== null; field = reader.next()) {
    if (field === 1) values.set(...readKeyValue(reader.message(), depth));
    else reader.skip();
  }
  return values;
}
