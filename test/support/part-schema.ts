import { z } from "zod";

/** A schema that names itself: parts that are made of parts. */
export const Part: z.ZodType<Part> = z.object({
  name: z.string(),
  get parts() {
    return z.array(Part);
  },
});
export interface Part {
  name: string;
  parts: Part[];
}
