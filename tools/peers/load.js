/**
 * Imports a package of this folder.
 * @param {string} name
 * @returns {Promise<unknown>}
 */
export const load = (name) => import(name);
