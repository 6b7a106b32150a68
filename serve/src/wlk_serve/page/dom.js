// What the modules do with the document.

/** Return the element of an id. */
export const $ = (id) => document.getElementById(id);

/** Return a new element of a class; it is the last one of `parent`, where that is given. */
export function element(name, kind, parent, text = "") {
	const made = document.createElement(name);
	made.className = kind;
	made.textContent = text;
	parent?.append(made);
	return made;
}
