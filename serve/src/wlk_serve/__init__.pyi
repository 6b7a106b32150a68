from wlk_serve.errors import RequestError as RequestError
from wlk_serve.models.card import ModelCard as ModelCard

__version__: str
