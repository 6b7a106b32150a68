// Single keys, outside of texts, lists and dialogs.

/** Call the action of a pressed key while `isOn()`. */
export function onKeys(actions, isOn) {
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey || !isOn()) return;
		if (event.target.closest("input, select, dialog[open]")) return;
		const action = actions[event.key.toLowerCase()];
		if (!action) return;
		event.preventDefault();
		action();
	});
}
