/** Whether the tests run with far more cases (`RIVULET_DEEP=1`). */
export const isDeep = process.env.RIVULET_DEEP === "1";
