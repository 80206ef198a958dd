import { directFetch } from "../../src/client/loopback-fetch.ts";

/** Run with a dead HTTP_PROXY: prints what plain fetch and `directFetch` make of each argument's URL. */
const outcome = (call: Promise<Response>) =>
  call.then(
    (answer) => answer.text(),
    () => "unreachable",
  );

for (const url of process.argv.slice(2)) {
  const [address, unix] = url.split("|") as [string, string | undefined];
  const plain = await outcome(fetch(address, unix === undefined ? {} : { unix }));
  const direct = await outcome(directFetch(address, unix === undefined ? {} : { unix }));
  console.log(`${plain} ${direct}`);
}
