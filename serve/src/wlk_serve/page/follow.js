// Keeps the newest line in view until the reader scrolls back.

const NEAR = 48; // this many pixels from the end still count as the end

export class Follower {
	isFollowing = true;

	constructor(scroller, content, button) {
		this.scroller = scroller;
		this.button = button;
		scroller.addEventListener("scroll", () => this.#look());
		button.addEventListener("click", () => this.newest());
		const observer = new ResizeObserver(() => this.isFollowing && this.#scroll());
		for (const box of [content, scroller]) observer.observe(box);
	}

	/** Go back to the newest line. */
	newest() {
		this.#scroll();
		this.scroller.focus({ preventScroll: true });
	}

	#scroll() {
		this.scroller.scrollTop = this.scroller.scrollHeight;
	}

	#look() {
		const { scrollTop, scrollHeight, clientHeight } = this.scroller;
		this.isFollowing = scrollHeight - scrollTop - clientHeight < NEAR;
		this.button.hidden = this.isFollowing;
	}
}
