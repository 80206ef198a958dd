import { expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../../src/errors.ts";
import { privateSocket } from "../../src/engine/socket-path.ts";
import { temporaryFolder } from "../helpers/temporary-folder.ts";

const folder = temporaryFolder();
const longName = "x".repeat(120);

test("the socket lies in the given folder, which only its owner may enter", () => {
  const socket = privateSocket(join(folder, "engine"));
  expect(socket.path).toBe(join(folder, "engine", "engine.sock"));
  expect(statSync(join(folder, "engine")).mode & 0o777).toBe(0o700);
});

test("a path too long for a socket moves to the temporary folder and leaves nothing behind", () => {
  const socket = privateSocket(join(folder, longName), folder);
  expect(socket.path.length).toBeLessThan(108);
  expect(existsSync(join(socket.path, ".."))).toBe(true);
  socket.remove();
  expect(existsSync(join(socket.path, ".."))).toBe(false);
});

test("when the temporary folder is too long as well, the error names both and says what to set", () => {
  const attempt = () => privateSocket(join(folder, longName), join(folder, longName, "t"));
  expect(attempt).toThrow(UsageError);
  expect(attempt).toThrow(/too long.*107 bytes/);
});
