/** Whether the long variants run. */
export const deep = process.env.RIVULET_DEEP === "1";
