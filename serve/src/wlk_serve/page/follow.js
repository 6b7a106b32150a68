// Keeps the newest line in view, until the reader scrolls back.

const NEAR = 48; // pixels from the end

export class Follower {
	isFollowing = true;

	constructor(scroller, content, button) {
		this.scroller = scroller;
		this.button = button;
		scroller.addEventListener("scroll", () => this.#look());
		button.addEventListener("click", () => this.newest());
		new ResizeObserver(() => this.update()).observe(content);
		new ResizeObserver(() => this.update()).observe(scroller);
	}

	update() {
		if (this.isFollowing) this.scroller.scrollTop = this.scroller.scrollHeight;
	}

	/** Go back to the newest line. */
	newest() {
		this.isFollowing = true;
		this.button.hidden = true;
		this.update();
		this.scroller.focus({ preventScroll: true });
	}

	#look() {
		const { scrollTop, scrollHeight, clientHeight } = this.scroller;
		this.isFollowing = scrollHeight - scrollTop - clientHeight < NEAR;
		this.button.hidden = this.isFollowing;
	}
}
