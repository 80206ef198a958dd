import { join } from "node:path";

/** A model of the Hugging Face hub; the revision is a branch, a tag or a commit. */
export interface HubName {
  name: string;
  revision: string;
}

const pattern = /^([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@([\w][\w./-]*))?$/;
const maxLength = 200;

/** `owner/name` or `owner/name@revision`; undefined for everything else, which then is a folder. */
export function parseHubName(text: string): HubName | undefined {
  if (text.length > maxLength) return undefined;
  const [, name, revision = "main"] = pattern.exec(text) ?? [];
  return name === undefined || /\.\.|--|\.git$/.test(text) ? undefined : { name, revision };
}

/** The folders that lead to it; the last is the model's own name, by which agents then know it. */
export function folderOf({ name, revision }: HubName): string {
  const [owner = "", model = ""] = name.split("/");
  return join(owner, revision.replaceAll("/", "--"), model);
}
