/** Path of the archive inside the compiled binary; from source there is none. The build replaces this file. */
export const embeddedArchive: string | undefined = undefined;
